#include "tools/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "env/real/real.h"
#include "tools/bench_link.h"
#include "tools/demo.h"
#include "tools/fuzz_net.h"
#include "tools/lab.h"
#include "tools/perf.h"
#include "tools/plan.h"
#include "tools/run.h"
#include "tools/settings.h"
#include "tools/sim.h"
#include "tools/soak.h"
#include "tools/status.h"

namespace r2ccl::tools {
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

}  // namespace

CLI::Option* add_amount(CLI::App& app, const Amount& amount, Result<std::uint64_t> (*parse)(std::string_view),
                        const StoreAmount& store) {
  const auto read = [amount, parse, store](const std::string& text) {
    const Result<std::uint64_t> value = parse(text);
    if (!value) throw CLI::ValidationError(amount.name, value.error().what);
    if (*value < amount.low || *value > amount.high)
      throw CLI::ValidationError(amount.name, fmt::format("{} is not from {} to {}", text, amount.low, amount.high));
    store(*value);
  };
  return app.add_option_function<std::string>(amount.name, read, amount.meaning);
}

Instant steady_now() {
  return SteadyClock().now();
}

int run_command_line(const std::vector<std::string>& arguments, const Context& context) {
  CLI::App app("R²CCL: communication between many-NIC servers that does not stop when the network breaks", "r2ccl");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  Action chosen;
  add_demo(app, context, chosen);
  add_run(app, context, chosen);
  add_lab(app, context, chosen);
  add_perf(app, context, chosen);
  add_plan(app, context, chosen);
  add_sim(app, context, chosen);
  add_bench_link(app, context, chosen);
  add_soak(app, context, chosen);
  add_fuzz_net(app, context, chosen);
  add_settings(app, context, chosen);
  add_status(app, context, chosen);
  if (const auto sentence = unknown_command(app, arguments)) {
    context.console.error(app.get_name(), *sentence);
    return kExitUsage;
  }
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    context.console.out(app.help());
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    const std::string name = command_name(app);
    context.console.error(name, fmt::format("{}; see {} --help", one_sentence(error.what()), name));
    return kExitUsage;
  }
  return finish(app, chosen, context.console);
}

}  // namespace r2ccl::tools
