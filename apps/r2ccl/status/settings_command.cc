#include "apps/r2ccl/status/settings_command.h"

#include <nlohmann/json.hpp>

#include "apps/r2ccl/common/json.h"
#include "apps/r2ccl/common/table.h"
#include "env/settings.h"

namespace r2ccl::apps {
namespace {

struct SettingsOptions {
  bool json = false;
};

std::string kind_text(const SettingInfo& info) {
  return std::string(info.choices.empty() ? to_text(info.type) : info.choices);
}

void print_json(const Settings& settings, Console& console) {
  auto rows = Json::array();
  for (const SettingInfo& info : Settings::list()) {
    rows.push_back({{"name", info.name},
                    {"default", info.default_value},
                    {"value", settings.value_text(info.name)},
                    {"type", kind_text(info)},
                    {"meaning", info.meaning}});
  }
  console.line(json_text(Json{{"settings", rows}}));
}

// The column of values appears only when the environment changes one.
void print_table(const Settings& settings, Console& console) {
  const auto changed = [&](const SettingInfo& info) { return settings.value_text(info.name) != info.default_value; };
  bool any_changed = false;
  for (const SettingInfo& info : Settings::list()) any_changed |= changed(info);

  std::vector<Table::Column> columns{{"setting"}, {"default"}};
  if (any_changed) columns.push_back({"now"});
  columns.insert(columns.end(), {{"type"}, {"meaning"}});
  Table table(columns);
  for (const SettingInfo& info : Settings::list()) {
    std::vector<Cell> row{{std::string(info.name), Colour::kBold}, std::string(info.default_value)};
    if (any_changed) row.emplace_back(changed(info) ? settings.value_text(info.name) : "", Colour::kYellow);
    row.emplace_back(kind_text(info), Colour::kDim);
    row.emplace_back(std::string(info.meaning));
    table.add(row);
  }
  console.out(table.text(console));
}

Result<int> run(const SettingsOptions& options, const Context& context) {
  const Result<Settings> settings = Settings::parse(context.environment);
  if (!settings) return std::unexpected(settings.error());
  options.json ? print_json(*settings, context.console) : print_table(*settings, context.console);
  return kExitOk;
}

}  // namespace

void add_settings(Command& app, const Context& context) {
  const auto options = std::make_shared<SettingsOptions>();
  Command command = app.add("settings", "List the settings read from the environment");
  command.runs([options, context] { return run(*options, context); });
  command.flag("--json", options->json, "print one JSON object");
}

}  // namespace r2ccl::apps
