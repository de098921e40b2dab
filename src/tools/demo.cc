#include "tools/demo.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/units.h"
#include "env/settings.h"
#include "tools/child.h"
#include "tools/demo_plan.h"
#include "tools/demo_server.h"
#include "tools/demo_story.h"
#include "tools/job.h"

namespace r2ccl::tools {
namespace {

constexpr Duration kStartMax = 30s;
constexpr Duration kLead = 20ms;      // between telling everybody to begin and the beginning
constexpr Duration kBackMax = 4s;     // how long a NIC that is not back prolongs the demo
constexpr Duration kTotalsMax = 20s;  // for the streams to end
constexpr Duration kPoll = 20ms;

struct Options {
  std::uint64_t seconds = 8;
  std::uint64_t servers = 3;
  std::uint64_t nics = 4;
  std::string rate = "400mbit";
  std::vector<std::string> faults;
  bool json = false;
};

Result<DemoPlan> make_plan(const Options& options, const Settings& settings) {
  DemoPlan plan;
  plan.servers = static_cast<std::uint32_t>(options.servers);
  plan.nics = static_cast<std::uint32_t>(options.nics);
  plan.length = std::chrono::seconds(options.seconds);
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

// A NIC proves itself for less time than in production, so that its return is seen; what is logged would only repeat what
// is printed. What the user set stays.
Settings demo_settings(Settings settings) {
  const Settings defaults;
  if (settings.probation_min == defaults.probation_min) settings.probation_min = 200ms;
  if (settings.debug == defaults.debug) settings.debug = "VERSION";
  return settings;
}

class Demo final {
 public:
  Demo(const DemoPlan& plan, Console& console, bool quiet) : plan_(plan), console_(console), quiet_(quiet) {}

  Result<DemoSummary> run(const Settings& settings) {
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
    if (!story.all_totals()) return fail(Fault::kPeerDown, "not every stream ended in time");
    children_.join(steady_now() + 2 * Process::kFinishMax);
    return story.summary();
  }

  Instant begun() const { return start_; }

 private:
  Status start(const Settings& settings) {
    for (std::uint32_t rank = 0; rank < plan_.servers; ++rank) {
      const Status started = children_.start([&, rank](LineChannel& parent) {
        return run_reporting(parent, [&] { run_demo_server(plan_, rank, settings, parent); });
      });
      if (!started) return started;
    }
    const Instant deadline = steady_now() + kStartMax;
    if (Status passed = pass_id(children_, deadline); !passed) return passed;
    for (std::size_t i = 0; i < children_.count(); ++i) {
      if (const Result<Json> ready = next_report(children_, i, deadline); !ready) return std::unexpected(ready.error());
    }
    start_ = steady_now() + kLead;
    tell_all(Json{{"go", start_.time_since_epoch().count()}});
    return {};
  }

  // Until `done`, or the deadline; an error when a process gave up.
  template <class Condition>
  Status listen(DemoStory& story, Instant deadline, const Condition& done) {
    for (Instant now = steady_now(); now < deadline && !done(now); now = steady_now()) {
      children_.wait(now + kPoll);
      for (std::size_t rank = 0; rank < children_.count(); ++rank) {
        if (Status heard = hear(story, rank); !heard) return heard;
      }
      story.settle(steady_now());
    }
    return {};
  }

  Status hear(DemoStory& story, std::size_t rank) {
    LineChannel& channel = children_.channel(rank);
    while (const std::optional<std::string> line = channel.receive(steady_now())) {
      const Json report = Json::parse(*line, nullptr, false);
      if (!report.is_object()) return fail(Fault::kBug, fmt::format("server {} said '{}'", rank, *line));
      if (report.contains("error"))
        return fail(Fault::kPeerDown, fmt::format("server {}: {}", rank, report["error"].get<std::string>()));
      if (report.contains("totals")) finished_.insert(rank);
      story.on_report(static_cast<std::uint32_t>(rank), report);
    }
    if (channel.closed() && !finished_.contains(rank))
      return fail(Fault::kPeerDown, fmt::format("server {} ended without a word", rank));
    return {};
  }

  void tell_all(const Json& object) {
    for (std::size_t i = 0; i < children_.count(); ++i) children_.channel(i).send(object.dump());
  }

  void print(Instant at, Colour colour, const std::string& text) {
    if (quiet_) return;
    const std::string time = console_.paint(Colour::kDim, fmt::format("{:7.3f} s", to_seconds(at - start_)));
    console_.line(fmt::format("{}  {}", time, console_.paint(colour, text)));
  }

  const DemoPlan plan_;
  Console& console_;
  const bool quiet_;
  Children children_;
  Instant start_{};
  std::set<std::size_t> finished_;  // said everything
};

Result<int> run(const Options& options, const Context& context) {
  const Result<Settings> settings = Settings::parse(context.environment);
  if (!settings) return std::unexpected(settings.error());
  const Result<DemoPlan> plan = make_plan(options, *settings);
  if (!plan) return std::unexpected(plan.error());
  Console& console = context.console;
  if (!options.json) {
    console.line(
        fmt::format("{} servers with {} NICs of {} each; every pair streams both ways, every byte is checked\n",
                    plan->servers, plan->nics, rate_text(plan->nic_rate_bytes_s)));
  }
  Demo demo(*plan, console, options.json);
  const Result<DemoSummary> summary = demo.run(demo_settings(*settings));
  if (!summary) return std::unexpected(summary.error());
  if (options.json) {
    console.out(summary_json(*summary, *plan, demo.begun()));
  } else {
    console.out("\n" + summary_text(*summary, console));
  }
  const bool good = summary->messages > 0 && summary->wrong_bytes == 0 && summary->lost_messages == 0;
  return good ? kExitOk : kExitFailed;
}

}  // namespace

void add_demo(CLI::App& app, const Context& context, Action& chosen) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, chosen, "demo", "Stream between servers while their NICs break, and check every byte", options,
                  [context](const Options& o) { return run(o, context); });
  add_integer(*command, {"--seconds", 3, 3600, "how long; 8 by default"}, options->seconds);
  add_integer(*command, {"--servers", 2, kDemoServersMax, "processes, each playing a server; 3 by default"},
              options->servers);
  add_integer(*command, {"--nics", 1, kDemoNicsMax, "loopback NICs of each server; 4 by default"}, options->nics);
  command->add_option("--rate", options->rate, "speed of each NIC; 400mbit by default")->type_name("RATE");
  command
      ->add_option("--fault", options->faults,
                   "a fault in place of the usual ones, e.g. 'at=2s server=0 nic=1 kind=cable for=1s'")
      ->type_name("F");
  command->add_flag("--json", options->json, "print one JSON object");
}

}  // namespace r2ccl::tools
