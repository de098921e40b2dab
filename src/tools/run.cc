#include "tools/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
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

// What the kernel takes as a list of words: valid as long as `words` is.
std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

// This process's environment, where `lines` (NAME=value) replace what has their names.
std::vector<std::string> environment_with(const std::vector<std::string>& lines) {
  const auto name = [](std::string_view line) { return line.substr(0, line.find('=')); };
  std::vector<std::string> out = lines;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool replaced = std::ranges::any_of(lines, [&](const auto& line) { return name(line) == name(*entry); });
    if (!replaced) out.emplace_back(*entry);
  }
  return out;
}

int become(const std::vector<std::string>& program, const std::vector<std::string>& lines, Console& console) {
  const std::vector<std::string> environment = environment_with(lines);
  ::execvpe(program[0].c_str(), pointers(program).data(), pointers(environment).data());
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
