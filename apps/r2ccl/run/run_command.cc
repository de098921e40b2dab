#include "apps/r2ccl/run/run_command.h"

#include <memory>

#include "apps/r2ccl/common/become.h"
#include "apps/r2ccl/run/run_children.h"
#include "apps/r2ccl/run/run_plan.h"

namespace r2ccl::apps {
namespace {

struct RunOptions {
  RunPlan plan;
  std::vector<std::string> program;
};

Result<int> run(const RunOptions& options, const Context& context) {
  if (const Status checked = check_plan(options.plan); !checked) return std::unexpected(checked.error());
  const auto meeting = arrange_meeting();
  if (!meeting) return std::unexpected(meeting.error());
  return run_children(options.plan.size(), [&](std::uint32_t rank) {
    context.console.error("r2ccl run", become(options.program, rank_environment(options.plan, *meeting, rank)).what);
    return kExitNoProgram;
  });
}

}  // namespace

void add_run(Command& app, const Context& context) {
  const auto options = std::make_shared<RunOptions>();
  Command command = app.add("run", "Start a program as ranks on this machine, with loopback NICs");
  command.runs([options, context] { return run(*options, context); });
  add_run_options(command, options->plan);
  command.program(options->program, "what each rank runs, after --");
}

}  // namespace r2ccl::apps
