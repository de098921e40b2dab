#pragma once
// What every command of `r2ccl` shares: how it is added to the command line, how it ends, how its options are read.
//
// The library that parses lies behind Command and Option: including it costs every file seconds.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/r2ccl/common/console.h"
#include "base/result.h"
#include "base/time.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace r2ccl::apps {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // the command ran and what it looked at is not right
inline constexpr int kExitUsage = 2;   // bad input; one sentence says what

struct Context {
  Console& console;
  std::vector<std::string_view> environment;  // "NAME=value"
};

// What the command line chose to run. It answers the status to exit with. An error is printed as one sentence; the tool
// then exits with kExitUsage when it is misuse and with kExitFailed otherwise.
using Action = std::function<Result<int>()>;

// Runs `r2ccl` with these arguments (without the program's name) and returns the status to exit with.
int run_command_line(const std::vector<std::string>& arguments, const Context& context);

// An option of a command, to say more about it; copies mean the same one.
class Option final {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option value_name(const std::string& name);  // what help calls its value
  Option required();
  Option excludes(const Option& other);
  Option one_of(const std::vector<std::string>& words);
  Option one_each();  // of several texts: one for each time it is named; else all words up to the next option

 private:
  CLI::Option* option_;
};

// An option whose value lies from `low` to `high`.
template <class Number>
struct Range {
  std::string name;
  Number low;
  Number high;
  std::string meaning;
};
using Amount = Range<std::uint64_t>;

// One command; copies mean the same one. It lives until its action is over.
class Command final {
 public:
  Command(CLI::App& app, Action& chosen) : app_(&app), chosen_(&chosen) {}

  Command add(const std::string& name, const std::string& purpose);  // a command below this one
  void needs_command();                                              // one of those below it has to be named
  // What it does, unless one below it is named. Options are best owned by the action, which lives as long as the
  // command.
  void runs(const Action& action);

  // A name without dashes is that of an argument, which is given without its name. Targets outlive the command; they
  // keep what they hold where the option is not given.
  Option text(const std::string& name, std::string& target, const std::string& meaning);
  Option texts(const std::string& name, std::vector<std::string>& target, const std::string& meaning);
  Option text_or_nothing(const std::string& name, std::optional<std::string>& target, const std::string& meaning);
  Option flag(const std::string& name, bool& target, const std::string& meaning);
  Option real(const Range<double>& range, double& target);
  // Numbers and units as base/units.h reads them.
  Option integer(const Amount& amount, std::uint64_t& target);
  Option integer(const Amount& amount, std::optional<std::uint64_t>& target);
  Option bytes(const Amount& amount, std::uint64_t& target);
  Option bytes(const Amount& amount, std::optional<std::uint64_t>& target);
  Option rate(const Amount& amount, std::uint64_t& target);
  // Another program and its arguments: everything from its name on.
  void program(std::vector<std::string>& target, const std::string& meaning);

  bool given(const std::string& name) const;  // once it runs: whether that option was

 private:
  CLI::App* app_;
  Action* chosen_;
};

// The clock of this process; the same for all processes of this machine.
Instant steady_now();

}  // namespace r2ccl::apps
