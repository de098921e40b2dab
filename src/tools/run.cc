#include "tools/run.h"

#include "tools/become.h"
#include "tools/run_children.h"
#include "tools/run_plan.h"

namespace r2ccl::tools {
namespace {

struct Options {
  RunPlan plan;
  std::vector<std::string> program;
};

Result<int> run(const Options& options, const Context& context) {
  if (const Status checked = check_plan(options.plan); !checked) return std::unexpected(checked.error());
  const auto meeting = arrange_meeting();
  if (!meeting) return std::unexpected(meeting.error());
  return run_children(options.plan.size(), [&](std::uint32_t rank) {
    context.console.error("r2ccl run", become(options.program, rank_environment(options.plan, *meeting, rank)).what);
    return kExitNoProgram;
  });
}

}  // namespace

void add_run(CLI::App& app, const Context& context, Action& chosen) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = add_command(app, chosen, "run", "Start a program as ranks on this machine, with loopback NICs",
                                  options, [context](const Options& o) { return run(o, context); });
  add_run_options(*command, options->plan);
  command->add_option("program", options->program, "what each rank runs, after --")->required()->type_name("-- CMD");
  command->positionals_at_end();
}

}  // namespace r2ccl::tools
