#include "apps/r2ccl/status/status_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>

#include "apps/r2ccl/common/json.h"
#include "apps/r2ccl/common/table.h"
#include "base/units.h"
#include "env/settings.h"
#include "telemetry/stats_page.h"

namespace r2ccl::apps {
namespace {

struct StatusOptions {
  bool json = false;
};

std::span<const Stats::Nic> nics_of(const Stats& stats) {
  return std::span(stats.nics).first(std::min<std::size_t>(stats.nic_count, Stats::kNicsMax));
}

Json to_json(const StatsView& view) {
  const Stats& stats = view.stats;
  Json nics = Json::array();
  for (const Stats::Nic& nic : nics_of(stats))
    nics.push_back({{"name", nic.name}, {"state", nic.state}, {"rate_bytes_s", nic.rate_bytes_s}});
  const Counters& counters = stats.counters;
  return {{"process", stats.process},
          {"server", stats.server},
          {"rank", stats.rank},
          {"size", stats.size},
          {"operation", view.reached.operation},
          {"share", view.reached.share_ppm * 1e-6},
          {"algorithm", stats.algorithm},
          {"health_version", stats.health_version},
          {"bytes_sent", counters.bytes_sent},
          {"bytes_received", counters.bytes_received},
          {"resent_bytes", counters.replayed_bytes + counters.hedged_bytes + counters.resent_bytes},
          {"paths_down", counters.paths_down},
          {"nics", nics}};
}

std::string nics_text(const Stats& stats) {
  std::string text;
  for (const Stats::Nic& nic : nics_of(stats))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", nic.name, nic.state);
  return text;
}

void print(const std::vector<StatsView>& views, Console& console) {
  if (views.empty()) return console.line("no process of R²CCL shows itself");
  using enum Align;
  Table table({{"process", kRight},
               {"server", kRight},
               {"rank", kRight},
               {"operation", kRight},
               {"algorithm"},
               {"map", kRight},
               {"sent", kRight},
               {"received", kRight},
               {"resent", kRight},
               {"NICs"}});
  for (const StatsView& view : views) {
    const Stats& stats = view.stats;
    const Counters& counters = stats.counters;
    table.add({fmt::format("{}", stats.process), fmt::format("{}", stats.server),
               fmt::format("{} of {}", stats.rank, stats.size), fmt::format("{}", view.reached.operation),
               std::string(stats.algorithm), fmt::format("{}", stats.health_version), bytes_text(counters.bytes_sent),
               bytes_text(counters.bytes_received),
               bytes_text(counters.replayed_bytes + counters.hedged_bytes + counters.resent_bytes), nics_text(stats)});
  }
  console.out(table.text(console));
}

Result<int> run(const StatusOptions& options, const Context& context) {
  const auto settings = Settings::parse(context.environment);
  if (!settings) return std::unexpected(settings.error());
  if (settings->stats == "off") return fail(Fault::kMisuse, "R2CCL_STATS is off: there is nothing to look at");
  const std::vector<StatsView> views = read_stats(settings->stats);
  if (!options.json) {
    print(views, context.console);
    return kExitOk;
  }
  Json object{{"processes", Json::array()}};
  for (const StatsView& view : views) object["processes"].push_back(to_json(view));
  context.console.line(json_text(object));
  return kExitOk;
}

}  // namespace

void add_status(Command& app, const Context& context) {
  const auto options = std::make_shared<StatusOptions>();
  Command command = app.add("status", "How running processes of this machine get on");
  command.runs([options, context] { return run(*options, context); });
  command.flag("--json", options->json, "print one JSON object");
}

}  // namespace r2ccl::apps
