#include "apps/r2ccl/demo/demo_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/r2ccl/common/child.h"
#include "apps/r2ccl/common/job.h"
#include "apps/r2ccl/demo/demo_lab.h"
#include "apps/r2ccl/demo/demo_page.h"
#include "apps/r2ccl/demo/demo_plan.h"
#include "apps/r2ccl/demo/demo_rank.h"
#include "apps/r2ccl/demo/demo_story.h"
#include "apps/r2ccl/demo/demo_view.h"
#include "base/units.h"
#include "env/settings.h"
#include "runtime/threads/process.h"

namespace r2ccl::apps {
namespace {

constexpr Duration kStartMax = 30s;
constexpr Duration kLead = 20ms;           // between telling everybody to begin and the beginning
constexpr Duration kLoopbackLead = 800ms;  // there the faults' clocks begin before the ranks have met
constexpr Duration kBackMax = 6s;          // how long a NIC that is not back prolongs the demo
constexpr Duration kTotalsMax = 20s;       // for the last AllReduce to end
constexpr Duration kPoll = 20ms;

struct DemoOptions {
  std::uint64_t seconds = 21;
  std::uint64_t servers = 4;
  std::uint64_t nics = 4;
  std::string rate = "500mbit";
  std::uint64_t bytes = DemoPlan{}.bytes;
  std::vector<std::string> faults;
  std::string name = DemoPlan{}.name;
  std::string report;  // empty: none
  bool loopback = false;
  bool json = false;
};

Result<DemoPlan> make_plan(const DemoOptions& options, const Settings& settings) {
  DemoPlan plan;
  plan.name = options.name;
  plan.servers = static_cast<std::uint32_t>(options.servers);
  plan.nics = static_cast<std::uint32_t>(options.nics);
  plan.length = std::chrono::seconds(options.seconds);
  plan.bytes = options.bytes;
  if (const Status named = lab::check_name(plan.name); !named) return std::unexpected(named.error());
  const Result<std::uint64_t> rate = parse_rate(options.rate);
  if (!rate) return std::unexpected(rate.error());
  if (*rate < kSlowRateMin)
    return fail(Fault::kMisuse, fmt::format("--rate: {} is too slow for anything", options.rate));
  plan.nic_rate_bytes_s = *rate;

  std::vector<std::string> texts = options.faults;
  if (texts.empty() && !settings.fault.empty()) texts.push_back(settings.fault);
  for (const std::string& text : texts) {
    Result<std::vector<FaultSpec>> faults = parse_faults(text);
    if (!faults) return std::unexpected(faults.error());
    plan.faults.insert(plan.faults.end(), faults->begin(), faults->end());
  }
  if (texts.empty()) plan.faults = demo_faults(plan);
  std::ranges::stable_sort(plan.faults, {}, [](const FaultSpec& fault) { return fault.at.time; });
  if (const Status checked = check_faults(plan); !checked) return std::unexpected(checked.error());
  return plan;
}

// A NIC proves itself for less time than in production, so that its return is seen; what is logged would only repeat
// what is printed. A lab's interfaces do not tell what they are shaped to. What the user set stays.
Settings demo_settings(Settings settings, const DemoPlan& plan) {
  const Settings defaults;
  if (settings.probation_min == defaults.probation_min) settings.probation_min = 200ms;
  if (settings.debug == defaults.debug) settings.debug = "VERSION";
  if (plan.in_lab && settings.nic_speed_bytes_s == 0) settings.nic_speed_bytes_s = plan.nic_rate_bytes_s;
  return settings;
}

class Demo final {
 public:
  Demo(const DemoPlan& plan, DemoLab* lab, Console& console, bool quiet)
      : plan_(plan), lab_(lab), console_(console), quiet_(quiet), view_(console) {}

  struct Outcome {
    DemoSummary summary;
    Json page;  // page_model()
  };
  Result<Outcome> run(const Settings& settings) {
    if (Status started = start(settings); !started) return std::unexpected(started.error());
    DemoStory story(plan_, start_,
                    [this](Instant at, Colour colour, const std::string& text) { print(at, colour, text); });
    const auto played = [&](Instant now) { return now >= start_ + plan_.length && story.all_over(); };
    if (Status heard = listen(story, start_ + plan_.length + kBackMax, played); !heard)
      return std::unexpected(heard.error());
    const Instant end = steady_now();
    story.close(end);
    tell_all(Json{{"stop", true}});
    const auto told = [&](Instant) { return story.all_totals(); };
    if (Status heard = listen(story, end + kTotalsMax, told); !heard) return std::unexpected(heard.error());
    if (!story.all_totals()) return fail(Fault::kPeerDown, "not every rank ended in time");
    view_.erase();
    children_.join(steady_now() + 2 * Process::kFinishMax);
    const DemoSummary summary = story.summary();
    return Outcome{summary, page_model(plan_, story, summary, lines_, start_)};
  }

  Instant begun() const { return start_; }

 private:
  Status start(const Settings& settings) {
    const Instant planned = steady_now() + kLoopbackLead;
    for (std::uint32_t rank = 0; rank < plan_.servers; ++rank) {
      const Status started = children_.start([&, rank](LineChannel& parent) {
        return run_reporting(parent, [&] { return run_demo_rank(plan_, rank, planned, settings, parent); });
      });
      if (!started) return started;
    }
    const Instant deadline = steady_now() + kStartMax;
    if (Status passed = pass_id(children_, deadline); !passed) return passed;
    for (std::size_t i = 0; i < children_.count(); ++i) {
      if (const Result<Json> ready = next_report(children_, i, deadline); !ready) return std::unexpected(ready.error());
    }
    start_ = std::max(steady_now() + kLead, lab_ != nullptr ? Instant{} : planned);
    // The ranks begin when they hear it, so it must not be said too early.
    while (steady_now() + kLead < start_) children_.wait(start_ - kLead);
    tell_all(Json{{"go", start_.time_since_epoch().count()}});
    return {};
  }

  // Until `done`, or the deadline; an error when a rank gave up or the lab did not do as it was told.
  template <class Condition>
  Status listen(DemoStory& story, Instant deadline, const Condition& done) {
    for (Instant now = steady_now(); now < deadline && !done(now); now = steady_now()) {
      children_.wait(std::min(now + kPoll, lab_ != nullptr ? lab_->next(start_) : kNever));
      if (Status made = make_faults(story); !made) return made;
      for (std::size_t rank = 0; rank < children_.count(); ++rank) {
        if (Status heard = hear(story, rank); !heard) return heard;
      }
      story.settle(steady_now());
      show(story, steady_now());
    }
    return {};
  }

  Status make_faults(DemoStory& story) {
    if (lab_ == nullptr) return {};
    const auto changes = lab_->step(start_, steady_now());
    if (!changes) return std::unexpected(changes.error());
    for (const DemoLab::Change& change : *changes) {
      if (change.begins) {
        story.on_begun(change.fault, change.at);
      } else {
        story.on_healed(change.fault, change.at);
      }
    }
    return {};
  }

  Status hear(DemoStory& story, std::size_t rank) {
    LineChannel& channel = children_.channel(rank);
    while (const std::optional<std::string> line = channel.receive(steady_now())) {
      const Json report = parse_json(*line);
      if (!report.is_object()) return fail(Fault::kBug, fmt::format("rank {} said '{}'", rank, *line));
      if (report.contains("error"))
        return fail(Fault::kPeerDown, fmt::format("rank {}: {}", rank, report["error"].get<std::string>()));
      if (report.contains("totals")) finished_.insert(rank);
      story.on_report(static_cast<std::uint32_t>(rank), report);
    }
    if (channel.closed() && !finished_.contains(rank))
      return fail(Fault::kPeerDown, fmt::format("rank {} ended without a word", rank));
    return {};
  }

  void tell_all(const Json& object) {
    for (std::size_t i = 0; i < children_.count(); ++i) children_.channel(i).send(json_text(object));
  }

  void print(Instant at, Colour colour, const std::string& text) {
    lines_.push_back({at, colour, text});
    if (quiet_) return;
    const std::string time = console_.paint(Colour::kDim, fmt::format("{:7.3f} s", to_seconds(at - start_)));
    view_.line(fmt::format("{}  {}", time, console_.paint(colour, text)));
  }

  void show(const DemoStory& story, Instant now) {
    if (!quiet_ && view_.due(now)) view_.draw(view_text(plan_, story, now - start_, now, console_), now);
  }

  const DemoPlan plan_;
  DemoLab* const lab_;  // null on loopback
  Console& console_;
  const bool quiet_;
  LiveView view_;
  Children children_;
  Instant start_{};
  std::vector<DemoLine> lines_;
  std::set<std::size_t> finished_;  // said everything
};

// The lab, or nothing and the reason why it is loopback.
std::unique_ptr<DemoLab> make_lab(const DemoOptions& options, DemoPlan& plan, std::string& why) {
  if (options.loopback) {
    why = "--loopback";
    return nullptr;
  }
  auto lab = DemoLab::make(plan);
  if (!lab) {
    why = lab.error().what;
    return nullptr;
  }
  plan.in_lab = true;
  return std::move(*lab);
}

Status write_page(const std::string& path, const Json& model) {
  std::error_code error;
  const std::filesystem::path file(path);
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), error);
  std::ofstream stream(file);
  stream << page_html(model) << std::flush;
  return stream ? Status{} : fail(Fault::kBusy, fmt::format("'{}' can not be written", path));
}

Result<int> run(const DemoOptions& options, const Context& context) {
  const Result<Settings> settings = Settings::parse(context.environment);
  if (!settings) return std::unexpected(settings.error());
  Result<DemoPlan> plan = make_plan(options, *settings);
  if (!plan) return std::unexpected(plan.error());
  Console& console = context.console;
  std::string why;
  const std::unique_ptr<DemoLab> lab = make_lab(options, *plan, why);
  if (!options.json) {
    console.line(fmt::format("{}; one rank each runs AllReduces of {}, every element is checked", where_text(*plan),
                             bytes_text(plan->bytes)));
    console.line(lab ? "Real interfaces in network namespaces; faults are made in the kernel.\n"
                     : fmt::format("Loopback NICs, faults are injected inside the library ({}).\n", why));
  }
  Demo demo(*plan, lab.get(), console, options.json);
  const Result<Demo::Outcome> outcome = demo.run(demo_settings(*settings, *plan));
  const bool clean = lab == nullptr || lab->finish();
  if (!outcome) return std::unexpected(outcome.error());
  const DemoSummary& summary = outcome->summary;
  if (options.json) {
    console.out(summary_json(summary, *plan, demo.begun()));
  } else {
    console.out("\n" + summary_text(summary, console));
  }
  if (!options.report.empty()) {
    if (const Status written = write_page(options.report, outcome->page); !written)
      return std::unexpected(written.error());
    if (!options.json) console.line(fmt::format("The whole of it to look at: {}", options.report));
  }
  if (!clean)
    return fail(Fault::kBusy, fmt::format("something is left; 'r2ccl lab down --name {}' removes it", plan->name));
  return summary.good() ? kExitOk : kExitFailed;
}

}  // namespace

void add_demo(Command& app, const Context& context) {
  const auto options = std::make_shared<DemoOptions>();
  Command command = app.add("demo", "AllReduce in a loop while NICs break, with every element checked");
  command.runs([options, context] { return run(*options, context); });
  command.integer({"--seconds", 3, 3600, "how long; 21 by default"}, options->seconds);
  command.integer({"--servers", 2, kDemoServersMax, "with one rank each; 4 by default"}, options->servers);
  command.integer({"--nics", 1, kDemoNicsMax, "of each server; 4 by default"}, options->nics);
  command.text("--rate", options->rate, "speed of each NIC; 500mbit by default").value_name("RATE");
  command.bytes({"--bytes", 4096, 1ULL << 30, "that each AllReduce sums; 8M by default"}, options->bytes);
  command
      .texts("--fault", options->faults,
             "a fault in place of the usual ones, e.g. 'at=2s server=0 nic=1 kind=cable for=1s'")
      .value_name("F");
  command.flag("--loopback", options->loopback, "loopback NICs and injected faults, also with root");
  command.text("--name", options->name, "of the lab; 'demo' by default").value_name("NAME");
  command.text("--report", options->report, "write a page with all of it, to look at in a browser").value_name("FILE");
  command.flag("--json", options->json, "print one JSON object");
}

}  // namespace r2ccl::apps
