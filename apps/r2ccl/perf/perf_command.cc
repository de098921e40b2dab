#include "apps/r2ccl/perf/perf_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/r2ccl/perf/perf_options.h"
#include "apps/r2ccl/perf/perf_rank.h"
#include "apps/r2ccl/run/run_children.h"
#include "apps/r2ccl/run/run_plan.h"
#include "process/launched_by.h"

namespace r2ccl::apps {
namespace {

// A rank that some launcher started.
Result<int> run_rank(const PerfOptions& options, const std::vector<std::string_view>& environment, Console& console) {
  auto settings = Settings::parse(environment);
  if (!settings) return std::unexpected(settings.error());
  const auto launch = find_launch(environment);
  if (!launch) return std::unexpected(launch.error());
  if (!*launch) return fail(Fault::kBug, "no launcher started this rank");
  if (!options.run.faults.empty()) settings->fault = fmt::format("{}", fmt::join(options.run.faults, ";"));
  if (!options.run.fabric.empty()) settings->fabric = options.run.fabric;
  return run_perf_rank(options, **launch, *settings, console);
}

// Its result is an exit status, as it ends a process of its own.
int run_child(const PerfOptions& options, const RunMeeting& meeting, std::uint32_t rank, const Context& context) {
  const std::vector<std::string> lines = rank_environment(options.run, meeting, rank);
  std::vector<std::string_view> environment(lines.begin(), lines.end());
  environment.insert(environment.end(), context.environment.begin(), context.environment.end());
  const Result<int> status = run_rank(options, environment, context.console);
  if (status) return *status;
  context.console.error("r2ccl perf", status.error().what);
  return status.error().fault == Fault::kMisuse ? kExitUsage : kExitFailed;
}

// `own_ranks`: --servers, --ranks or --nics was given.
Result<int> run(const PerfOptions& options, bool own_ranks, const Context& context) {
  const auto launch = find_launch(context.environment);
  if (!launch) return std::unexpected(launch.error());
  if (*launch && own_ranks) {
    return fail(Fault::kMisuse,
                fmt::format("{} started this rank, so --servers, --ranks and --nics have no meaning here",
                            (*launch)->launcher));
  }
  if (*launch) return run_rank(options, context.environment, context.console);

  // Everything that can be wrong is said once, before there are ranks.
  if (const auto settings = Settings::parse(context.environment); !settings) return std::unexpected(settings.error());
  if (const auto work = work_of(options, options.run.size()); !work) return std::unexpected(work.error());
  if (const Status checked = check_plan(options.run); !checked) return std::unexpected(checked.error());
  const auto meeting = arrange_meeting();
  if (!meeting) return std::unexpected(meeting.error());
  return run_children(options.run.size(),
                      [&](std::uint32_t rank) { return run_child(options, *meeting, rank, context); });
}

}  // namespace

void add_perf(Command& app, const Context& context) {
  const auto options = std::make_shared<PerfOptions>();
  Command command = app.add("perf", "Measure collectives and check every element, as nccl-tests does");
  add_perf_options(command, *options);
  command.runs([options, command, context] {
    const bool own_ranks = command.given("--servers") || command.given("--ranks") || command.given("--nics");
    return run(*options, own_ranks, context);
  });
}

}  // namespace r2ccl::apps
