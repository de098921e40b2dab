#pragma once
// What every command of `r2ccl` shares: how it is added to the command line, how it ends, how amounts are read.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "tools/console.h"

namespace r2ccl::tools {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // the command ran and what it looked at is not right
inline constexpr int kExitUsage = 2;   // bad input; one sentence says what

struct Context {
  Console& console;
  std::vector<std::string_view> environment;  // "NAME=value"
};

// What the command line chose. The status to exit with; an error is printed as one sentence and exits with kExitUsage when
// it is misuse and with kExitFailed otherwise.
using Action = std::function<Result<int>()>;

// Runs `r2ccl` with these arguments (without the program's name) and returns the status to exit with.
int run_command_line(const std::vector<std::string>& arguments, const Context& context);

// A subcommand whose options live as long as its action: `run` is called with them once the whole line was understood.
template <class Options, class Run>
CLI::App* add_command(CLI::App& app, Action& chosen, const std::string& name, const std::string& purpose,
                      const std::shared_ptr<Options>& options, const Run& run) {
  CLI::App* command = app.add_subcommand(name, purpose);
  command->callback([&chosen, options, run] { chosen = [options, run] { return run(*options); }; });
  return command;
}

// An option whose value is an amount from `low` to `high`; `parse` is one of base/units.h.
struct Amount {
  std::string name;
  std::uint64_t low;
  std::uint64_t high;
  std::string meaning;
};
using StoreAmount = std::function<void(std::uint64_t)>;
CLI::Option* add_amount(CLI::App& app, const Amount& amount, Result<std::uint64_t> (*parse)(std::string_view),
                        const StoreAmount& store);

// `target` (a number, or an optional one) outlives parsing.
template <class Target>
CLI::Option* add_integer(CLI::App& app, const Amount& amount, Target& target) {
  return add_amount(app, amount, parse_integer, [&target](std::uint64_t value) { target = value; })->type_name("N");
}
template <class Target>
CLI::Option* add_bytes(CLI::App& app, const Amount& amount, Target& target) {
  return add_amount(app, amount, parse_bytes, [&target](std::uint64_t value) { target = value; })->type_name("SIZE");
}

// The clock of this process; the same for all processes of this machine.
Instant steady_now();

}  // namespace r2ccl::tools
