#include "apps/r2ccl/model/sim_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/r2ccl/common/cluster_options.h"
#include "apps/r2ccl/common/json.h"
#include "apps/r2ccl/common/timeline.h"
#include "apps/r2ccl/model/evaluation_report.h"
#include "apps/r2ccl/model/sim_papers_command.h"
#include "apps/r2ccl/model/sim_sweep_command.h"
#include "base/units.h"
#include "sim/study/sweep.h"

namespace r2ccl::apps {
namespace {

struct SimOptions {
  ClusterOptions cluster;
  std::string mode = "multi-port";
  std::string at;  // empty: failures are there from the start
  std::uint64_t random = 0;
  std::uint64_t samples = 100;
  std::uint64_t seed = 1;
  std::uint64_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::string timeline;
};

Result<sim::PortModel> model_of(const SimOptions& options) {
  for (const sim::PortModel model : {sim::PortModel::kMultiPort, sim::PortModel::kFair, sim::PortModel::kOnePort}) {
    if (options.mode == to_text(model)) return model;
  }
  return fail(Fault::kMisuse,
              fmt::format("there is no mode '{}'; there are multi-port, fair and one-port", options.mode));
}

// The failures as events at --at: what the flags say, against the healthy cluster.
Result<std::vector<sim::NicFault>> faults_at(const SimOptions& options) {
  const Result<Duration> at = parse_duration(options.at);
  if (!at) return std::unexpected(at.error());
  const Result<Cluster> healthy = healthy_cluster_of(options.cluster);
  const Result<Cluster> broken = cluster_of(options.cluster);
  if (!healthy) return std::unexpected(healthy.error());
  if (!broken) return std::unexpected(broken.error());
  std::vector<sim::NicFault> faults;
  for (std::uint32_t server = 0; server < healthy->servers; ++server) {
    for (std::uint32_t nic = 0; nic < healthy->nics; ++nic) {
      if (broken->nic(server, nic) != healthy->nic(server, nic)) {
        faults.push_back({to_seconds(*at), server, nic, broken->nic(server, nic)});
      }
    }
  }
  if (faults.empty()) return fail(Fault::kMisuse, "--at says when NICs fail, but no --lost or --slow says which");
  return faults;
}

Result<int> run_once(const SimOptions& options, Console& console) {
  const Result<sim::PortModel> model = model_of(options);
  if (!model) return std::unexpected(model.error());
  sim::EvaluateOptions how{.tuning = tuning_of(options.cluster), .timing = {.model = *model}, .clock = wall_seconds};
  if (!options.at.empty()) {
    Result<std::vector<sim::NicFault>> faults = faults_at(options);
    if (!faults) return std::unexpected(faults.error());
    how.timing.faults = std::move(*faults);
  }
  std::vector<sim::Occupancy> occupancy;
  if (!options.timeline.empty()) {
    if (options.cluster.algorithm == "all")
      return fail(Fault::kMisuse, "--timeline shows one algorithm: name it with --algo, or auto");
    how.timing.occupancy = &occupancy;
  }
  const Result<EvaluationReport> report = evaluate_all(options.cluster, how, console);
  if (!report) return std::unexpected(report.error());
  if (!options.timeline.empty()) {
    if (Status written = write_timeline(options.timeline, occupancy); !written) return std::unexpected(written.error());
  }
  if (options.cluster.json) {
    Json object = to_json(*report);
    object["mode"] = options.mode;
    console.line(json_text(object));
    return kExitOk;
  }
  print_report(*report, console);
  console.line(fmt::format("mode {}", options.mode));
  if (!options.timeline.empty()) {
    console.line(fmt::format("wrote {} ({} intervals); open it in ui.perfetto.dev or chrome://tracing",
                             options.timeline, occupancy.size()));
  }
  return kExitOk;
}

void print_samples(const sim::Summary& summary, const SimOptions& options, const sim::Case& first, double seconds,
                   Console& console) {
  console.line(describe(first.request, first.cluster));
  console.line(fmt::format("{} random failures, {} samples, mode multi-port, {:.1f} s", options.random, summary.samples,
                           seconds));
  console.line(fmt::format("{} over the bound: mean {:.4f}, median {:.4f}, 99 % {:.4f}, worst {:.4f} (seed {})",
                           options.cluster.algorithm, summary.mean, summary.p50, summary.p99, summary.max,
                           summary.worst_seed));
}

Result<int> run_random(const SimOptions& options, Console& console) {
  if (options.mode != "multi-port" || !options.at.empty() || !options.timeline.empty() ||
      options.cluster.algorithm == "all") {
    return fail(Fault::kMisuse,
                "--random draws failures before the collective, multi-port, for one algorithm: leave out --mode, --at, "
                "--timeline and --algo all");
  }
  const Result<Request> request = request_of(options.cluster);
  const Result<Cluster> cluster = cluster_of(options.cluster);
  if (!request) return std::unexpected(request.error());
  if (!cluster) return std::unexpected(cluster.error());
  const std::uint64_t spare = std::uint64_t{cluster->servers} * (cluster->nics - 1);
  if (options.random > spare) {
    return fail(Fault::kMisuse,
                fmt::format("{} NICs can not fail where at most {} can: each server keeps one", options.random, spare));
  }
  const auto draw = [&](std::uint64_t seed) {
    sim::Case drawn{.seed = seed, .request = *request, .cluster = *cluster, .damage = {}};
    drawn.damage = sim::draw_damage(drawn.cluster, static_cast<std::uint32_t>(options.random), false, seed);
    return drawn;
  };
  const double start = wall_seconds();
  const Result<std::vector<sim::Sample>> samples =
      sim::sweep(draw, options.cluster.algorithm,
                 {.samples = options.samples,
                  .seed = options.seed,
                  .threads = static_cast<unsigned>(options.threads),
                  .progress = [&](std::uint64_t done) {
                    console.progress(fmt::format("{} of {} samples", done, options.samples));
                  }});
  console.progress("");
  if (!samples) return std::unexpected(samples.error());
  const sim::Summary summary = sim::summarise(*samples);
  const double seconds = wall_seconds() - start;
  if (!options.cluster.json) {
    print_samples(summary, options, samples->front().drawn, seconds, console);
    return kExitOk;
  }
  Json object{{"mode", options.mode}, {"seconds", seconds}};
  object["samples"] = samples_json(*samples);
  object["summary"] = summary_json(summary);
  console.line(json_text(object));
  return kExitOk;
}

}  // namespace

void add_sim(Command& app, const Context& context) {
  const auto options = std::make_shared<SimOptions>();
  Command command = app.add("sim", "Time collectives in the cluster model, under failures before or inside them");
  command.runs([options, &console = context.console] {
    return options->random > 0 ? run_random(*options, console) : run_once(*options, console);
  });
  add_cluster_options(command, options->cluster);
  command.text("--mode", options->mode, "multi-port (default), fair or one-port").value_name("M");
  command.text("--at", options->at, "when --lost and --slow happen, after the start").value_name("TIME");
  command.integer({"--random", 1, 100'000, "so many random NICs lost, in each of --samples draws"}, options->random);
  command.integer({"--samples", 1, 1'000'000, "draws of --random; default 100"}, options->samples);
  command.integer({"--seed", 0, UINT64_MAX / 2, "of the first draw; default 1"}, options->seed);
  command.integer({"--threads", 1, 1024, "for --random; one per core by default"}, options->threads);
  command.text("--timeline", options->timeline, "write what every NIC is busy with, as a Chrome trace")
      .value_name("FILE");
  add_sim_sweep(command, context);
  add_sim_papers(command, context);
}

}  // namespace r2ccl::apps
