#include "apps/r2ccl/soak/soak_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "apps/r2ccl/common/become.h"
#include "apps/r2ccl/common/json.h"
#include "apps/r2ccl/lab/lab_run.h"
#include "apps/r2ccl/run/run_children.h"
#include "apps/r2ccl/soak/soak_rank.h"
#include "base/units.h"

namespace r2ccl::apps {
namespace {

struct SoakOptions {
  double minutes = 1;
  SoakPlan plan;
  std::string fabric = "routed";
  std::uint64_t rate_bytes_s = 500'000'000 / 8;
  std::string name = "soak";  // of the lab
  bool loopback = false;
  bool json = false;
};

SoakPlan plan_of(const SoakOptions& options) {
  SoakPlan plan = options.plan;
  plan.length = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.minutes * 60));
  plan.fabric = options.fabric == "rails" ? Fabric::kRails : Fabric::kRouted;
  return plan;
}

std::string text_of(const SoakFigures& figures, bool json) {
  if (json) {
    return json_text(Json{{"operations", figures.operations},
                          {"bytes", figures.bytes},
                          {"faults", figures.faults},
                          {"wrong", figures.wrong},
                          {"worst_stall_ms", figures.worst_stall_ms},
                          {"rss_growth_bytes", figures.rss_growth_bytes},
                          {"fd_growth", figures.fd_growth},
                          {"seconds", figures.seconds}}) +
           "\n";
  }
  return fmt::format(
      "{} collectives with {} in {:.0f} s under {} faults: {} wrong elements\n"
      "worst stall {:.0f} ms; in the second half {} more memory and {} more open files than in the first\n",
      figures.operations, bytes_text(figures.bytes), figures.seconds, figures.faults, figures.wrong,
      figures.worst_stall_ms, bytes_text(figures.rss_growth_bytes), figures.fd_growth);
}

Result<int> run_rank(const SoakOptions& options, const Launched& launch, const Context& context) {
  const auto settings = Settings::parse(context.environment);
  if (!settings) return std::unexpected(settings.error());
  const SoakPlan plan = plan_of(options);
  if (launch.size != plan.size()) {
    return fail(Fault::kMisuse,
                fmt::format("{} started {} ranks, but the plan has {}; --servers and --ranks say how many",
                            launch.launcher, launch.size, plan.size()));
  }
  const auto figures = run_soak_rank(plan, launch, *settings, context.console);
  if (!figures) return std::unexpected(figures.error());
  if (launch.rank == 0) context.console.out(text_of(*figures, options.json));
  return figures->wrong == 0 ? kExitOk : kExitFailed;
}

// What each rank runs: this command again, which then finds that it is one.
std::vector<std::string> program_of(const SoakOptions& options) {
  std::vector<std::string> program{"/proc/self/exe",
                                   "soak",
                                   fmt::format("--minutes={}", options.minutes),
                                   fmt::format("--servers={}", options.plan.servers),
                                   fmt::format("--ranks={}", options.plan.ranks),
                                   fmt::format("--nics={}", options.plan.nics),
                                   fmt::format("--seed={}", options.plan.seed),
                                   fmt::format("--fabric={}", options.fabric)};
  if (options.json) program.emplace_back("--json");
  return program;
}

RunPlan run_plan_of(const SoakOptions& options) {
  return {.servers = options.plan.servers,
          .ranks = options.plan.ranks,
          .nics = options.plan.nics,
          .faults = {to_text(soak_faults(plan_of(options)))},
          .fabric = options.fabric};
}

Result<int> soak_in_lab(const SoakOptions& options, const Context& context) {
  const SoakPlan plan = plan_of(options);
  return run_in_lab({.lab = {.name = options.name,
                             .servers = plan.servers,
                             .nics = plan.nics,
                             .rate_bytes_s = options.rate_bytes_s,
                             .fabric = plan.fabric},
                     .plan = run_plan_of(options),
                     .program = program_of(options)},
                    context);
}

Result<int> soak_on_loopback(const SoakOptions& options, const Context& context) {
  const auto meeting = arrange_meeting();
  if (!meeting) return std::unexpected(meeting.error());
  const RunPlan plan = run_plan_of(options);
  return run_children(plan.size(), [&](std::uint32_t rank) {
    context.console.error("r2ccl soak", become(program_of(options), rank_environment(plan, *meeting, rank)).what);
    return kExitNoProgram;
  });
}

Result<int> run(const SoakOptions& options, const Context& context) {
  const auto launch = find_launch(context.environment);
  if (!launch) return std::unexpected(launch.error());
  if (*launch) return run_rank(options, **launch, context);
  const bool in_lab = !options.loopback && ::geteuid() == 0;
  if (!options.json) {
    context.console.line(fmt::format("{} servers with {} ranks and {} NICs each, {}, seed {}", options.plan.servers,
                                     options.plan.ranks, options.plan.nics,
                                     in_lab             ? "real interfaces and real faults"
                                     : options.loopback ? "loopback NICs and injected faults"
                                                        : "loopback NICs and injected faults, as a lab needs root",
                                     options.plan.seed));
  }
  return in_lab ? soak_in_lab(options, context) : soak_on_loopback(options, context);
}

}  // namespace

void add_soak(Command& app, const Context& context) {
  const auto options = std::make_shared<SoakOptions>();
  Command command = app.add("soak", "Random collectives under random faults, every element checked");
  command.runs([options, context] { return run(*options, context); });
  command.real({"--minutes", 0.1, 100'000.0, "how long; 1 by default"}, options->minutes).value_name("M");
  command.integer({"--servers", 1, kRunServersMax, "4 by default"}, options->plan.servers);
  command.integer({"--ranks", 1, kRunRanksMax, "of each server; 1 by default"}, options->plan.ranks);
  command.integer({"--nics", 1, kRunNicsMax, "of each server; 4 by default"}, options->plan.nics);
  command.integer({"--seed", 0, ~std::uint64_t{0}, "another one draws other faults and collectives; 1 by default"},
                  options->plan.seed);
  command.rate({"--rate", lab::kRateMin, lab::kRateMax, "of each NIC of the lab; 500mbit by default"},
               options->rate_bytes_s);
  command.text("--fabric", options->fabric, "routed (by default) or rails").one_of({"routed", "rails"});
  command.text("--name", options->name, "of the lab; 'soak' by default").value_name("NAME");
  command.flag("--loopback", options->loopback, "loopback NICs and injected faults, also as root");
  command.flag("--json", options->json, "print one JSON object");
}

}  // namespace r2ccl::apps
