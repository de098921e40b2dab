#include "apps/r2ccl/model/plan_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/r2ccl/common/cluster_options.h"
#include "apps/r2ccl/common/json.h"
#include "apps/r2ccl/model/evaluation_report.h"
#include "base/units.h"
#include "schedule/text/text.h"

namespace r2ccl::apps {
namespace {

struct PlanOptions {
  ClusterOptions cluster;
  bool print = false;
};

// From `bytes` on, auto takes `algorithm`.
struct Crossover {
  std::uint64_t bytes = 0;
  std::string algorithm;
};

constexpr std::uint64_t kSmallest = std::uint64_t{1} << 10;
constexpr std::uint64_t kLargest = std::uint64_t{1} << 33;

Result<std::vector<Crossover>> crossovers(Request request, const Cluster& cluster, const Tuning& tuning) {
  std::vector<Crossover> found;
  for (request.bytes = kSmallest; request.bytes <= kLargest; request.bytes *= 2) {
    const Result<Plan> best = plan("auto", request, cluster, tuning);
    if (!best) return std::unexpected(best.error());
    if (found.empty() || found.back().algorithm != best->header.algorithm) {
      found.push_back({request.bytes, best->header.algorithm});
    }
  }
  return found;
}

std::string crossovers_text(const std::vector<Crossover>& found) {
  std::string text = "auto by size:";
  for (std::size_t i = 0; i < found.size(); ++i) {
    text += i == 0 ? fmt::format(" {}", found[i].algorithm)
                   : fmt::format(", from {} {}", bytes_text(found[i].bytes), found[i].algorithm);
  }
  return text;
}

Result<int> print_schedule(const PlanOptions& options, Console& console) {
  if (options.cluster.algorithm == "all" || options.cluster.json) {
    return fail(Fault::kMisuse,
                "--print shows one schedule as text: leave out --json and name one algorithm with --algo, or auto");
  }
  const Result<Request> request = request_of(options.cluster);
  if (!request) return std::unexpected(request.error());
  const Result<Cluster> cluster = cluster_of(options.cluster);
  if (!cluster) return std::unexpected(cluster.error());
  const Result<Plan> planned = plan(options.cluster.algorithm, *request, *cluster, tuning_of(options.cluster));
  if (!planned) return std::unexpected(planned.error());
  console.out(print(planned->schedule()));
  return kExitOk;
}

Result<int> run(const PlanOptions& options, Console& console) {
  if (options.print) return print_schedule(options, console);
  const Tuning tuning = tuning_of(options.cluster);
  const Result<EvaluationReport> report =
      evaluate_all(options.cluster, {.tuning = tuning, .timing = {}, .clock = wall_seconds}, console);
  if (!report) return std::unexpected(report.error());
  const Result<std::vector<Crossover>> sizes = crossovers(report->request, report->cluster, tuning);
  if (!sizes) return std::unexpected(sizes.error());
  if (!options.cluster.json) {
    print_report(*report, console);
    console.line(crossovers_text(*sizes));
    return kExitOk;
  }
  Json object = to_json(*report);
  object["crossovers"] = Json::array();
  for (const Crossover& crossover : *sizes) {
    object["crossovers"].push_back({{"bytes", crossover.bytes}, {"algorithm", crossover.algorithm}});
  }
  console.line(json_text(object));
  return kExitOk;
}

}  // namespace

void add_plan(Command& app, const Context& context) {
  const auto options = std::make_shared<PlanOptions>();
  Command command = app.add("plan", "Plan a collective on a cluster with failures, prove it and time it");
  command.runs([options, &console = context.console] { return run(*options, console); });
  add_cluster_options(command, options->cluster);
  command.flag("--print", options->print, "print the schedule itself");
}

}  // namespace r2ccl::apps
