#include "tools/perf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/launch.h"
#include "tools/perf_options.h"
#include "tools/perf_rank.h"
#include "tools/run_children.h"
#include "tools/run_plan.h"

namespace r2ccl::tools {
namespace {

struct Options {
  PerfOptions perf;
  bool own_ranks = false;  // --servers, --ranks or --nics was given
};

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

Result<int> run(const Options& options, const Context& context) {
  const auto launch = find_launch(context.environment);
  if (!launch) return std::unexpected(launch.error());
  if (*launch && options.own_ranks) {
    return fail(Fault::kMisuse,
                fmt::format("{} started this rank, so --servers, --ranks and --nics have no meaning here",
                            (*launch)->launcher));
  }
  if (*launch) return run_rank(options.perf, context.environment, context.console);

  // Everything that can be wrong is said once, before there are ranks.
  if (const auto settings = Settings::parse(context.environment); !settings) return std::unexpected(settings.error());
  if (const auto work = work_of(options.perf, options.perf.run.size()); !work) return std::unexpected(work.error());
  if (const Status checked = check_plan(options.perf.run); !checked) return std::unexpected(checked.error());
  const auto meeting = arrange_meeting();
  if (!meeting) return std::unexpected(meeting.error());
  return run_children(options.perf.run.size(),
                      [&](std::uint32_t rank) { return run_child(options.perf, *meeting, rank, context); });
}

}  // namespace

void add_perf(CLI::App& app, const Context& context, Action& chosen) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, chosen, "perf", "Measure collectives and check every element, as nccl-tests does", options,
                  [context](const Options& o) { return run(o, context); });
  add_perf_options(*command, options->perf);
  command->parse_complete_callback([command, options] {
    options->own_ranks = command->count("--servers") + command->count("--ranks") + command->count("--nics") > 0;
  });
}

}  // namespace r2ccl::tools
