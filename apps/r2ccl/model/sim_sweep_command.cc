#include "apps/r2ccl/model/sim_sweep_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/r2ccl/common/json.h"
#include "apps/r2ccl/common/table.h"
#include "apps/r2ccl/model/evaluation_report.h"
#include "base/units.h"

namespace r2ccl::apps {
namespace {

constexpr std::array kFamilies{sim::Family::kRouted, sim::Family::kRailsSmall, sim::Family::kRailsLarge,
                               sim::Family::kGpus};

struct SimSweepOptions {
  std::string family = "all";
  std::string algorithm = "auto";
  std::uint64_t samples = 1000;
  std::uint64_t seed = 1;
  std::uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  bool json = false;
};

struct Swept {
  sim::Family family;
  std::vector<sim::Sample> samples;
  sim::Summary summary;
  double seconds = 0;
};

Result<std::vector<sim::Family>> families_of(const SimSweepOptions& options) {
  if (options.family == "all") return std::vector(kFamilies.begin(), kFamilies.end());
  for (const sim::Family family : kFamilies) {
    if (options.family == to_text(family)) return std::vector{family};
  }
  return fail(
      Fault::kMisuse,
      fmt::format("there is no family '{}'; there are routed, rails-small, rails-large, gpus and all", options.family));
}

Result<Swept> sweep_family(sim::Family family, const SimSweepOptions& options, Console& console) {
  const double start = wall_seconds();
  Result<std::vector<sim::Sample>> samples =
      sim::sweep([family](std::uint64_t seed) { return sim::draw_case(family, seed); }, options.algorithm,
                 {.samples = options.samples,
                  .seed = options.seed,
                  .threads = static_cast<unsigned>(options.threads),
                  .with_balance = true,
                  .progress = [&](std::uint64_t done) {
                    console.progress(fmt::format("{}: {} of {} samples", to_text(family), done, options.samples));
                  }});
  console.progress("");
  if (!samples) return std::unexpected(samples.error());
  const sim::Summary summary = sim::summarise(*samples);
  return Swept{family, std::move(*samples), summary, wall_seconds() - start};
}

// "weighted_direct 990, trees 10"
std::string choices_text(const std::vector<sim::Sample>& samples) {
  std::map<std::string, std::size_t> count;
  for (const sim::Sample& sample : samples) ++count[sample.name];
  std::string text;
  for (const auto& [name, n] : count) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, n);
  return text;
}

std::uint64_t smallest_message(const std::vector<sim::Sample>& samples) {
  std::uint64_t least = UINT64_MAX;
  for (const sim::Sample& sample : samples) least = std::min(least, sample.smallest_message);
  return least;
}

void print_swept(const std::vector<Swept>& all, Console& console) {
  const Cluster& model = all.front().samples.front().drawn.cluster;
  console.line(fmt::format(
      "random failures, {} over the bound; mode multi-port, alpha 5-20 us by case, port cost {:g} ns, messages from {}",
      "auto", model.port_cost_s * 1e9, bytes_text(model.min_message)));
  Table table({{"family"},
               {"samples", Align::kRight},
               {"mean", Align::kRight},
               {"median", Align::kRight},
               {"99 %", Align::kRight},
               {"worst", Align::kRight},
               {"seed", Align::kRight},
               {"> balance", Align::kRight},
               {"smallest", Align::kRight},
               {"wall", Align::kRight},
               {"chosen"}});
  for (const Swept& swept : all) {
    const sim::Summary& s = swept.summary;
    table.add({std::string(to_text(swept.family)), fmt::format("{}", s.samples), fmt::format("{:.4f}", s.mean),
               fmt::format("{:.4f}", s.p50), fmt::format("{:.4f}", s.p99), fmt::format("{:.4f}", s.max),
               fmt::format("{}", s.worst_seed), fmt::format("{}", s.slower_than_balance),
               bytes_text(smallest_message(swept.samples)), fmt::format("{:.1f} s", swept.seconds),
               choices_text(swept.samples)});
  }
  console.out(table.text(console));
}

Result<int> run(const SimSweepOptions& options, Console& console) {
  const Result<std::vector<sim::Family>> families = families_of(options);
  if (!families) return std::unexpected(families.error());
  std::vector<Swept> all;
  for (const sim::Family family : *families) {
    Result<Swept> swept = sweep_family(family, options, console);
    if (!swept) return std::unexpected(swept.error());
    all.push_back(std::move(*swept));
  }
  if (!options.json) {
    print_swept(all, console);
    return kExitOk;
  }
  auto rows = Json::array();
  for (const Swept& swept : all) {
    rows.push_back({{"family", to_text(swept.family)},
                    {"seconds", swept.seconds},
                    {"summary", summary_json(swept.summary)},
                    {"samples", samples_json(swept.samples)}});
  }
  console.line(json_text(Json{{"families", rows}}));
  return kExitOk;
}

}  // namespace

Json samples_json(const std::vector<sim::Sample>& samples) {
  auto rows = Json::array();
  for (const sim::Sample& sample : samples) {
    auto lost = Json::array();
    for (const auto& [server, nic] : sample.drawn.damage.lost) lost.push_back(fmt::format("{}:{}", server, nic));
    auto slow = Json::array();
    for (const sim::SlowNic& nic : sample.drawn.damage.slow)
      slow.push_back(fmt::format("{}:{}:{:.1f}", nic.server, nic.nic, nic.fraction));
    const Cluster& cluster = sample.drawn.cluster;
    rows.push_back({{"seed", sample.drawn.seed},
                    {"servers", cluster.servers},
                    {"gpus", cluster.gpus},
                    {"nics", cluster.nics},
                    {"rate_bytes_s", cluster.nic_rate},
                    {"alpha_s", cluster.alpha_s},
                    {"bytes", sample.drawn.request.bytes},
                    {"lost", lost},
                    {"slow", slow},
                    {"name", sample.name},
                    {"time_s", sample.time_s},
                    {"network_s", sample.network_s},
                    {"intra_s", sample.intra_s},
                    {"bound_ratio", sample.ratio()},
                    {"balance_s", sample.balance_s}});
  }
  return rows;
}

Json summary_json(const sim::Summary& summary) {
  return {{"samples", summary.samples},
          {"mean", summary.mean},
          {"p50", summary.p50},
          {"p99", summary.p99},
          {"max", summary.max},
          {"worst_seed", summary.worst_seed},
          {"slower_than_balance", summary.slower_than_balance}};
}

void add_sim_sweep(Command& sim, const Context& context) {
  const auto options = std::make_shared<SimSweepOptions>();
  Command command = sim.add("sweep", "auto against the bound over random clusters and failures");
  command.runs([options, &console = context.console] { return run(*options, console); });
  command.text("--family", options->family, "routed, rails-small, rails-large, gpus or all (default)").value_name("F");
  command.text("--algo", options->algorithm, "what to sweep; default auto").value_name("A");
  command.integer({"--samples", 1, 1'000'000, "per family; default 1000"}, options->samples);
  command.integer({"--seed", 0, UINT64_MAX / 2, "of the first draw; default 1"}, options->seed);
  command.integer({"--threads", 1, 1024, "one per core by default"}, options->threads);
  command.flag("--json", options->json, "print one JSON object");
}

}  // namespace r2ccl::apps
