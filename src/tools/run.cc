#include "tools/run.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "tools/run_children.h"
#include "tools/run_plan.h"

namespace r2ccl::tools {
namespace {

constexpr int kExitNoProgram = 127;  // as shells say it

struct Options {
  RunPlan plan;
  std::vector<std::string> program;
};

int become(const std::vector<std::string>& program, const std::vector<std::string>& lines, Console& console) {
  for (const std::string& line : lines) {
    const auto equals = line.find('=');
    ::setenv(line.substr(0, equals).c_str(), line.c_str() + equals + 1, 1);
  }
  std::vector<char*> words;
  for (const std::string& word : program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  console.error("r2ccl run",
                fmt::format("'{}' can not be started: {}", program[0], std::generic_category().message(errno)));
  return kExitNoProgram;
}

Result<int> run(const Options& options, const Context& context) {
  if (const Status checked = check_plan(options.plan); !checked) return std::unexpected(checked.error());
  const auto meeting = arrange_meeting();
  if (!meeting) return std::unexpected(meeting.error());
  return run_children(options.plan.size(), [&](std::uint32_t rank) {
    return become(options.program, rank_environment(options.plan, *meeting, rank), context.console);
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
