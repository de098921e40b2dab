#include "apps/r2ccl/fuzz/fuzz_net_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "apps/r2ccl/common/json.h"
#include "base/units.h"
#include "sim/net/fuzz_net.h"

namespace r2ccl::apps {
namespace {

constexpr std::uint64_t kSeedsDefault = 1000;
constexpr std::uint64_t kBrokenBatch = 64;  // seeds tried at once while a broken rule is looked for
constexpr Duration kProgressEvery = 100ms;

struct FuzzNetOptions {
  std::optional<std::uint64_t> seeds;
  std::optional<std::uint64_t> seed;
  std::uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::string broken;
  bool trace = false;
  bool json = false;

  // One named seed means that one.
  std::uint64_t count() const { return seeds.value_or(seed ? 1 : kSeedsDefault); }
  std::uint64_t first() const { return seed.value_or(1); }
};

class SeedProgress final {
 public:
  SeedProgress(Console& console, std::uint64_t of) : console_(console), of_(of) {}
  ~SeedProgress() { console_.progress(""); }
  SeedProgress(const SeedProgress&) = delete;
  SeedProgress& operator=(const SeedProgress&) = delete;
  void show(std::uint64_t done) {
    const Instant now = steady_now();
    if (now < next_) return;
    next_ = now + kProgressEvery;
    console_.progress(fmt::format("{} of {} seeds", done, of_));
  }

 private:
  Console& console_;
  const std::uint64_t of_;
  Instant next_{};
};

void print_failures(const sim::FuzzSummary& summary, Console& console) {
  for (const sim::FailedSeed& failed : summary.failed) {
    console.line(fmt::format("{} {}", console.paint(Colour::kRed, "seed"), failed.seed));
    for (const std::string& violation : failed.violations) console.line("  " + violation);
    console.line(fmt::format("  replay: {}", failed.replay));
  }
  if (summary.failed.size() < summary.failed_seeds)
    console.line(fmt::format("and {} more seeds", summary.failed_seeds - summary.failed.size()));
}

Json failures_json(const sim::FuzzSummary& summary) {
  auto rows = Json::array();
  for (const sim::FailedSeed& failed : summary.failed)
    rows.push_back({{"seed", failed.seed}, {"violations", failed.violations}, {"replay", failed.replay}});
  return rows;
}

void print_json(const sim::FuzzSummary& summary, double seconds, Console& console) {
  const Json object{{"seeds", summary.seeds},
                    {"failed", summary.failed_seeds},
                    {"faults", summary.faults},
                    {"repairs", summary.repairs},
                    {"collectives", summary.collectives},
                    {"seconds", seconds},
                    {"simulated_seconds", to_seconds(summary.simulated)},
                    {"replayed_bytes", summary.replayed_bytes},
                    {"hedged_bytes", summary.hedged_bytes},
                    {"resent_bytes", summary.resent_bytes},
                    {"events", summary.events},
                    {"digest", fmt::format("{:016x}", summary.digest)},
                    {"failures", failures_json(summary)}};
  console.line(json_text(object));
}

void print_text(const sim::FuzzSummary& summary, double seconds, Console& console) {
  print_failures(summary, console);
  const bool ok = summary.failed_seeds == 0;
  console.line(
      fmt::format("{}  {} seeds, {} faults, {} repairs, {} collectives; sent again {}; {:.0f} s of network time in "
                  "{:.1f} s; digest {:016x}",
                  console.paint(ok ? Colour::kGreen : Colour::kRed,
                                ok ? "all invariants held" : fmt::format("{} seeds failed", summary.failed_seeds)),
                  summary.seeds, summary.faults, summary.repairs, summary.collectives,
                  bytes_text(summary.replayed_bytes + summary.hedged_bytes + summary.resent_bytes),
                  to_seconds(summary.simulated), seconds, summary.digest));
}

int run_seeds(const FuzzNetOptions& options, Console& console) {
  const Instant start = steady_now();
  sim::FuzzSummary summary;
  {
    SeedProgress progress(console, options.count());
    summary = sim::fuzz(options.first(), options.count(), static_cast<unsigned>(options.threads), {},
                        [&](std::uint64_t done) { progress.show(done); });
  }
  const double seconds = to_seconds(steady_now() - start);
  options.json ? print_json(summary, seconds, console) : print_text(summary, seconds, console);
  return summary.failed_seeds == 0 ? kExitOk : kExitFailed;
}

// ---- broken rules -----------------------------------------------------------------------------------------------

Result<std::vector<sim::NamedRules>> rules_to_break(const std::string& name) {
  std::vector<sim::NamedRules> known = sim::broken_rules();
  if (name == "all") return known;
  std::vector<std::string> names;
  for (const sim::NamedRules& rule : known) {
    if (rule.name == name) return std::vector{rule};
    names.push_back(fmt::format("'{}'", rule.name));
  }
  return fail(Fault::kMisuse,
              fmt::format("there is no rule '{}' to break; there are {} and all", name, fmt::join(names, ", ")));
}

struct Caught {
  std::string rule;
  std::uint64_t tried = 0;  // seeds up to and with the failing one
  std::optional<sim::FailedSeed> failure;
};

Caught catch_rule(const sim::NamedRules& broken, const FuzzNetOptions& options, Console& console) {
  SeedProgress progress(console, options.count());
  Caught caught{.rule = broken.name, .failure = {}};
  while (caught.tried < options.count()) {
    const std::uint64_t batch = std::min(kBrokenBatch, options.count() - caught.tried);
    const sim::FuzzSummary summary =
        sim::fuzz(options.first() + caught.tried, batch, static_cast<unsigned>(options.threads), broken.rules);
    if (!summary.failed.empty()) {
      caught.failure = summary.failed.front();
      caught.failure->replay += fmt::format(" --break \"{}\"", broken.name);
      caught.tried = caught.failure->seed - options.first() + 1;
      return caught;
    }
    caught.tried += batch;
    progress.show(caught.tried);
  }
  return caught;
}

void print_caught(const Caught& caught, std::uint64_t of, Console& console) {
  if (!caught.failure) {
    console.line(
        fmt::format("{}  {} in {} seeds", console.paint(Colour::kRed, "not caught"), caught.rule, caught.tried));
    return;
  }
  console.line(fmt::format("{}  {} by seed {} of {}: {}", console.paint(Colour::kGreen, "caught"), caught.rule,
                           caught.tried, of,
                           caught.failure->violations.empty() ? "" : caught.failure->violations.front()));
  console.line(console.paint(Colour::kDim, fmt::format("        replay: {}", caught.failure->replay)));
}

Json caught_json(const Caught& caught) {
  Json row{{"rule", caught.rule}, {"caught", caught.failure.has_value()}, {"seeds", caught.tried}};
  if (caught.failure) {
    row["seed"] = caught.failure->seed;
    row["violations"] = caught.failure->violations;
    row["replay"] = caught.failure->replay;
  }
  return row;
}

Result<int> run_broken(const FuzzNetOptions& options, Console& console) {
  const Result<std::vector<sim::NamedRules>> rules = rules_to_break(options.broken);
  if (!rules) return std::unexpected(rules.error());
  bool all_caught = true;
  auto rows = Json::array();
  for (const sim::NamedRules& rule : *rules) {
    const Caught caught = catch_rule(rule, options, console);
    all_caught &= caught.failure.has_value();
    options.json ? rows.push_back(caught_json(caught)) : print_caught(caught, options.count(), console);
  }
  if (options.json) console.line(json_text(Json{{"broken", rows}}));
  return all_caught ? kExitOk : kExitFailed;
}

// ---- one seed, step by step -------------------------------------------------------------------------------------

Result<int> run_trace(const FuzzNetOptions& options, Console& console) {
  if (options.count() != 1 || options.json) return fail(Fault::kMisuse, "--trace shows one seed: give --seed alone");
  Rules rules;
  if (!options.broken.empty()) {
    const Result<std::vector<sim::NamedRules>> broken = rules_to_break(options.broken);
    if (!broken) return std::unexpected(broken.error());
    if (broken->size() != 1) return fail(Fault::kMisuse, "--trace shows one run: break one rule");
    rules = broken->front().rules;
  }
  sim::Scenario scenario = sim::draw_scenario(options.first(), rules);
  scenario.trace = [&](const std::string& line) { console.line(line); };
  const sim::RunReport report = sim::run_scenario(scenario);
  for (const std::string& violation : report.violations) console.line(console.paint(Colour::kRed, violation));
  console.line(fmt::format("seed {}: {} events, {} faults, {} repairs, digest {:016x}", options.first(), report.events,
                           report.faults, report.repairs, report.digest));
  return report.ok ? kExitOk : kExitFailed;
}

Result<int> run(const FuzzNetOptions& options, Console& console) {
  if (options.trace) return run_trace(options, console);
  if (!options.broken.empty()) return run_broken(options, console);
  return run_seeds(options, console);
}

}  // namespace

void add_fuzz_net(Command& app, const Context& context) {
  constexpr std::uint64_t kSeedsMax = 1'000'000'000;
  constexpr std::uint64_t kSeedMax = std::numeric_limits<std::uint64_t>::max() - kSeedsMax;
  constexpr std::uint64_t kThreadsMax = 1024;
  const auto options = std::make_shared<FuzzNetOptions>();
  Command command = app.add("fuzz-net", "Run the shipped protocol under a hostile, deterministic network");
  command.runs([options, &console = context.console] { return run(*options, console); });
  command.integer({"--seeds", 1, kSeedsMax, "how many runs; 1000 unless --seed names one"}, options->seeds);
  command.integer({"--seed", 0, kSeedMax, "the first run's seed"}, options->seed);
  command.integer({"--threads", 1, kThreadsMax, "threads; one per core by default"}, options->threads);
  command
      .text("--break", options->broken, "break one of the protocol's rules, or all, and succeed when that is noticed")
      .value_name("RULE");
  command.flag("--trace", options->trace, "print everything that happens in one seed");
  command.flag("--json", options->json, "print one JSON object");
}

}  // namespace r2ccl::apps
