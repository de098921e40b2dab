#include "apps/r2ccl/common/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "apps/r2ccl/demo/demo_command.h"
#include "apps/r2ccl/fuzz/fuzz_net_command.h"
#include "apps/r2ccl/lab/lab_command.h"
#include "apps/r2ccl/model/plan_command.h"
#include "apps/r2ccl/model/sim_command.h"
#include "apps/r2ccl/perf/bench_link.h"
#include "apps/r2ccl/perf/perf_command.h"
#include "apps/r2ccl/run/exec_command.h"
#include "apps/r2ccl/run/run_command.h"
#include "apps/r2ccl/soak/soak_command.h"
#include "apps/r2ccl/status/settings_command.h"
#include "apps/r2ccl/status/status_command.h"
#include "apps/r2ccl/status/version.h"
#include "base/units.h"
#include "env/real/real.h"

namespace r2ccl::apps {
namespace {

// CLI11 puts some messages on several lines.
std::string one_sentence(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

std::string command_name(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* sub : app.get_subcommands()) name += " " + sub->get_name();
  return name;
}

// CLI11 would only say that a subcommand is required.
std::optional<std::string> unknown_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front().starts_with("-")) return std::nullopt;
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name() == arguments.front()) return std::nullopt;
    names.push_back(sub->get_name());
  }
  return fmt::format("there is no command '{}'; there are {}", arguments.front(), fmt::join(names, ", "));
}

int finish(const CLI::App& app, const Action& chosen, Console& console) {
  try {
    const Result<int> status = chosen();
    if (status) return *status;
    console.error(command_name(app), status.error().what);
    return status.error().fault == Fault::kMisuse ? kExitUsage : kExitFailed;
  } catch (const std::exception& error) {
    console.error(command_name(app), error.what());
    return kExitFailed;
  }
}

using Parse = Result<std::uint64_t> (*)(std::string_view);
using Store = std::function<void(std::uint64_t)>;

Option add_amount(CLI::App& app, const Amount& amount, Parse parse, const Store& store) {
  const auto read = [amount, parse, store](const std::string& text) {
    const Result<std::uint64_t> value = parse(text);
    if (!value) throw CLI::ValidationError(amount.name, value.error().what);
    if (*value < amount.low || *value > amount.high)
      throw CLI::ValidationError(amount.name, fmt::format("{} is not from {} to {}", text, amount.low, amount.high));
    store(*value);
  };
  return Option(*app.add_option_function<std::string>(amount.name, read, amount.meaning));
}

Store store_in(std::uint64_t& target) {
  return [&target](std::uint64_t value) { target = value; };
}
Store store_in(std::optional<std::uint64_t>& target) {
  return [&target](std::uint64_t value) { target = value; };
}

}  // namespace

// ---- options ----------------------------------------------------------------------------------------------------

Option Option::value_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option Option::one_of(const std::vector<std::string>& words) {
  option_->check(CLI::IsMember(words));
  return *this;
}

Option Option::one_each() {
  option_->allow_extra_args(false);
  return *this;
}

Option Command::text(const std::string& name, std::string& target, const std::string& meaning) {
  return Option(*app_->add_option(name, target, meaning));
}

Option Command::texts(const std::string& name, std::vector<std::string>& target, const std::string& meaning) {
  return Option(*app_->add_option(name, target, meaning));
}

Option Command::text_or_nothing(const std::string& name, std::optional<std::string>& target,
                                const std::string& meaning) {
  const auto read = [&target](const std::vector<std::string>& words) { target = words.empty() ? "" : words.front(); };
  return Option(*app_->add_option_function<std::vector<std::string>>(name, read, meaning)->expected(0, 1));
}

Option Command::flag(const std::string& name, bool& target, const std::string& meaning) {
  return Option(*app_->add_flag(name, target, meaning));
}

Option Command::real(const Range<double>& range, double& target) {
  return Option(*app_->add_option(range.name, target, range.meaning)->check(CLI::Range(range.low, range.high)));
}

Option Command::integer(const Amount& amount, std::uint64_t& target) {
  return add_amount(*app_, amount, parse_integer, store_in(target)).value_name("N");
}

Option Command::integer(const Amount& amount, std::optional<std::uint64_t>& target) {
  return add_amount(*app_, amount, parse_integer, store_in(target)).value_name("N");
}

Option Command::bytes(const Amount& amount, std::uint64_t& target) {
  return add_amount(*app_, amount, parse_bytes, store_in(target)).value_name("SIZE");
}

Option Command::bytes(const Amount& amount, std::optional<std::uint64_t>& target) {
  return add_amount(*app_, amount, parse_bytes, store_in(target)).value_name("SIZE");
}

Option Command::rate(const Amount& amount, std::uint64_t& target) {
  return add_amount(*app_, amount, parse_rate, store_in(target)).value_name("RATE");
}

void Command::program(std::vector<std::string>& target, const std::string& meaning) {
  texts("program", target, meaning).required().value_name("-- CMD");
  app_->positionals_at_end();
}

bool Command::given(const std::string& name) const {
  return app_->count(name) > 0;
}

// ---- commands ---------------------------------------------------------------------------------------------------

Command Command::add(const std::string& name, const std::string& purpose) {
  return {*app_->add_subcommand(name, purpose), *chosen_};
}

void Command::needs_command() {
  app_->require_subcommand(1);
}

void Command::runs(const Action& action) {
  // Those below are called first.
  app_->callback([app = app_, chosen = chosen_, action] {
    if (app->get_subcommands().empty()) *chosen = action;
  });
}

Instant steady_now() {
  return SteadyClock().now();
}

int run_command_line(const std::vector<std::string>& arguments, const Context& context) {
  CLI::App app("R²CCL: communication between many-NIC servers that does not stop when the network breaks", "r2ccl");
  app.get_formatter()->column_width(34);
  app.set_version_flag("--version", version_line());
  Action chosen;
  Command all(app, chosen);
  all.needs_command();
  add_demo(all, context);
  add_run(all, context);
  add_exec(all, context);
  add_lab(all, context);
  add_perf(all, context);
  add_plan(all, context);
  add_sim(all, context);
  add_bench_link(all, context);
  add_soak(all, context);
  add_fuzz_net(all, context);
  add_paths(all, context);
  add_settings(all, context);
  add_status(all, context);
  if (const auto sentence = unknown_command(app, arguments)) {
    context.console.error(app.get_name(), *sentence);
    return kExitUsage;
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    context.console.out(app.help());
    return kExitOk;
  } catch (const CLI::CallForVersion&) {
    context.console.line(version_line());
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    const std::string name = command_name(app);
    context.console.error(name, fmt::format("{}; see {} --help", one_sentence(error.what()), name));
    return kExitUsage;
  }
  return finish(app, chosen, context.console);
}

}  // namespace r2ccl::apps
