#include "sim/study/paper_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/assert.h"
#include "planner/bounds.h"
#include "sim/study/sweep.h"
#include "sim/study/training.h"

namespace r2ccl::sim {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{4} << 30;
constexpr std::uint32_t kFine = 256;  // segments where a table states the limit of fine cutting

// Time over the healthy flat ring of the same members, 2 (p - 1) / p n / B.
struct Ratio {
  std::string_view algorithm;
  Cluster cluster;
  Tuning tuning;
  PortModel model = PortModel::kMultiPort;

  Result<double> operator()(Proofs& proofs) const {
    const EvaluateOptions how{.tuning = tuning, .timing = {.model = model}, .scratch = false};
    const Result<Evaluation> evaluation = evaluate(algorithm, {.bytes = kBytes}, cluster, proofs, how);
    if (!evaluation) return std::unexpected(evaluation.error());
    const Bounds bounds = bounds_of(Collective::kAllReduce, kBytes, cluster);
    return evaluation->timing.time_s / bounds.healthy_ring_s;
  }
};

void add(std::vector<PaperJob>& jobs, std::string table, std::string name, double paper, Ratio ratio) {
  const PortModel model = ratio.model;
  const std::uint32_t ranks = ratio.cluster.ranks();
  jobs.push_back({std::move(table), std::move(name), paper, ranks, model, std::move(ratio)});
}

// ---- R²CCL ----------------------------------------------------------------------------------------------------------

struct R2Row {
  std::uint32_t members, nics, lost;
  double balance, lost_fraction, optimal;
};
// Section 5.2: n, X, and T over healthy for Balance, Y = X and Y = Y*.
constexpr auto kR2Rows = std::to_array<R2Row>({{3, 8, 1, 1.1429, 1.1071, 1.0971},
                                               {4, 8, 1, 1.1429, 1.0952, 1.0901},
                                               {8, 8, 1, 1.1429, 1.0816, 1.0805},
                                               {16, 8, 1, 1.1429, 1.0762, 1.0759},
                                               {32, 8, 1, 1.1429, 1.0737, 1.0737},
                                               {16, 8, 2, 1.3333, 1.1778, 1.1773},
                                               {32, 8, 2, 1.3333, 1.1720, 1.1719},
                                               {6, 3, 1, 1.5, 1.30, 1.2945},
                                               {8, 8, 4, 2.0, 1.5714, 1.5670}});

void add_r2_model(std::vector<PaperJob>& jobs) {
  const std::string table = "R2CCL 5.2";
  for (const R2Row& row : kR2Rows) {
    const Cluster cluster = ideal_cluster(row.members, row.nics, {row.nics - row.lost});
    const std::string name = fmt::format("n={} X={}/{}", row.members, row.lost, row.nics);
    add(jobs, table, name + " balance", row.balance, {"balance", cluster, {}});
    add(jobs, table, name + " r2 Y=X", row.lost_fraction, {"r2", cluster, {.r2_tail = Tuning::Tail::kLostFraction}});
    add(jobs, table, name + " r2 Y=Y*", row.optimal, {"r2", cluster, {.r2_tail = Tuning::Tail::kOptimal}});
  }
}

void add_r2_artifact(std::vector<PaperJob>& jobs) {
  const std::string table = "R2CCL 8.6";
  const Cluster cluster = ideal_cluster(6, 3, {2});
  add(jobs, table, "P=6 X=1/3 healthy ring", 1, {"ring", ideal_cluster(6, 3, {}), {}});
  add(jobs, table, "P=6 X=1/3 hot repair only", 2, {"repair_only", cluster, {}});
  add(jobs, table, "P=6 X=1/3 balance", 1.5, {"balance", cluster, {}});
  constexpr auto kChunked =
      std::to_array<std::pair<std::uint32_t, double>>({{1, 1.600}, {2, 1.450}, {4, 1.375}, {8, 1.3375}, {16, 1.3187}});
  for (const auto& [chunks, paper] : kChunked) {
    add(jobs, table, fmt::format("P=6 X=1/3 r2 K={}", chunks), paper,
        {"r2", cluster, {.r2_tail = Tuning::Tail::kLostFraction, .r2_chunks = chunks}});
  }
}

// Bandwidth kept, in percent: 16 GPUs, one of eight NICs lost.
void add_r2_headline(std::vector<PaperJob>& jobs) {
  constexpr auto kRows = std::to_array<std::tuple<std::string_view, std::string_view, double>>(
      {{"hot repair only", "repair_only", 50}, {"balance", "balance", 87.5}, {"r2", "r2", 92.9}});
  for (const auto& [name, algorithm, paper] : kRows) {
    const Ratio ratio{algorithm, ideal_cluster(16, 8, {7}), {.r2_tail = Tuning::Tail::kLostFraction}};
    jobs.push_back({"R2CCL headline", fmt::format("16 GPUs, 1 of 8 NICs, {}, % kept", name), paper, 16,
                    PortModel::kMultiPort, [ratio](Proofs& proofs) -> Result<double> {
                      const Result<double> slower = ratio(proofs);
                      if (!slower) return slower;
                      return 100 / *slower;
                    }});
  }
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

constexpr double kExposed = 0.093;  // share of a training step, from the papers' own figures

// It remembers its times.
ByteTime timed_before(const Cluster& healthy, Proofs& proofs) {
  return timed(Collective::kAllReduce, healthy.gpus > 1 ? "hierarchical" : "ring", healthy, proofs);
}

// A step without overlap whose healthy exposed share is kExposed.
Result<double> training_overhead(std::string_view algorithm, const ByteTime& before, const Cluster& broken,
                                 Proofs& proofs) {
  TrainingJob job{.gradient_bytes = kBytes, .overlapped = false};
  const ByteTime after = timed(Collective::kAllReduce, std::string(algorithm), broken, proofs);
  const Result<double> healthy_s = before(job.gradient_bytes);
  if (!healthy_s) return healthy_s;
  job.backward_s = *healthy_s * (1 - kExposed) / kExposed;
  const Result<StepTime> was = training_step(job, {.data_parallel = before, .tensor_parallel = {}, .hand_over = {}});
  const Result<StepTime> is = training_step(job, {.data_parallel = after, .tensor_parallel = {}, .hand_over = {}});
  if (!was) return std::unexpected(was.error());
  if (!is) return std::unexpected(is.error());
  return 100 * (is->total_s() / was->total_s() - 1);
}

void add_training(std::vector<PaperJob>& jobs) {
  const Cluster healthy = ideal_cluster(16, 8, {});
  const Cluster broken = ideal_cluster(16, 8, {7});
  constexpr auto kRows = std::to_array<std::pair<std::string_view, double>>({{"balance", 1.32}, {"r2", 0.71}});
  for (const auto& [algorithm, paper] : kRows) {
    jobs.push_back({"R2CCL 8.3 training", fmt::format("2.7B, DP=16, 1 of 8 NICs, {}, % slower", algorithm), paper, 16,
                    PortModel::kMultiPort, [=](Proofs& proofs) {
                      return training_overhead(algorithm, timed_before(healthy, proofs), broken, proofs);
                    }});
  }
}

constexpr std::uint64_t kFailureSamples = 10;

// 64 servers x 8 GPUs; the mean over random draws.
Result<double> many_failures(std::string_view algorithm, std::uint32_t failures, Proofs& proofs) {
  Cluster healthy = ideal_cluster(64, 8, {});
  healthy.gpus = 8;
  const ByteTime before = timed_before(healthy, proofs);
  double sum = 0;
  for (std::uint64_t seed = 1; seed <= kFailureSamples; ++seed) {
    Cluster broken = healthy;
    draw_damage(broken, failures, false, seed);
    const Result<double> overhead = training_overhead(algorithm, before, broken, proofs);
    if (!overhead) return overhead;
    sum += *overhead;
  }
  return sum / kFailureSamples;
}

void add_many_failures(std::vector<PaperJob>& jobs) {
  constexpr auto kPaper = std::to_array<std::pair<std::uint32_t, double>>({{1, 1.5}, {10, 4.3}});
  for (const std::string_view algorithm : {"balance", "auto"}) {
    for (const auto& [failures, paper] : kPaper) {
      jobs.push_back(
          {"R2CCL 8.5 random failures", fmt::format("512 GPUs, {} NICs lost, {}, % slower", failures, algorithm), paper,
           512, PortModel::kMultiPort, [=](Proofs& proofs) { return many_failures(algorithm, failures, proofs); }});
    }
  }
}

// ---- OptCC ----------------------------------------------------------------------------------------------------------

struct OptccRow {
  std::uint32_t members;
  std::uint32_t kept;  // NICs of eight
  double multi_port, optcc16, optcc64, weighted64, ring, r2;
};
// Section 8.3: times over the healthy ring.
constexpr auto kOptccRows = std::to_array<OptccRow>({
    {4, 7, 1.0323, 1.0794, 1.0700, 1.0672, 1.143, 1.095},  {4, 6, 1.0667, 1.1724, 1.1504, 1.1498, 1.333, 1.222},
    {4, 4, 1.3333, 1.4167, 1.3542, 1.3542, 2.000, 1.667},  {4, 3, 1.7778, 1.8889, 1.8056, 1.8009, 2.667, 2.111},
    {8, 7, 1.0159, 1.0462, 1.0359, 1.0361, 1.143, 1.082},  {8, 6, 1.0323, 1.0968, 1.0744, 1.0743, 1.333, 1.190},
    {8, 4, 1.1429, 1.2143, 1.1607, 1.1607, 2.000, 1.571},  {8, 3, 1.5238, 1.6190, 1.5476, 1.5425, 2.667, 1.952},
    {16, 7, 1.0079, 1.0303, 1.0196, 1.0203, 1.143, 1.076}, {16, 6, 1.0159, 1.0625, 1.0400, 1.0400, 1.333, 1.178},
    {16, 4, 1.0667, 1.1333, 1.0833, 1.0833, 2.000, 1.533}, {16, 3, 1.4222, 1.5111, 1.4444, 1.4393, 2.667, 1.889},
    {32, 7, 1.0039, 1.0226, 1.0117, 1.0128, 1.143, 1.074}, {32, 6, 1.0079, 1.0462, 1.0236, 1.0240, 1.333, 1.172},
    {32, 4, 1.0323, 1.0968, 1.0484, 1.0484, 2.000, 1.516}, {32, 3, 1.3763, 1.4624, 1.3978, 1.3926, 2.667, 1.860},
    {64, 7, 1.0020, 1.0187, 1.0078, 1.0090, 1.143, 1.073}, {64, 6, 1.0039, 1.0382, 1.0156, 1.0157, 1.333, 1.169},
    {64, 4, 1.0159, 1.0794, 1.0317, 1.0317, 2.000, 1.508}, {64, 3, 1.3545, 1.4392, 1.3757, 1.3705, 2.667, 1.847},
});

void add_optcc(std::vector<PaperJob>& jobs) {
  const std::string table = "OptCC 8.3";
  for (const OptccRow& row : kOptccRows) {
    const Cluster cluster = ideal_cluster(row.members, 8, {row.kept});
    const std::string name = fmt::format("p={} beta={}/8 ", row.members, row.kept);
    const double bound = one_port_bound<double>(static_cast<int>(row.members), 8.0 / row.kept) /
                         ring_time<double>(static_cast<int>(row.members));
    add(jobs, table, name + "weighted_direct (T*)", row.multi_port, {"weighted_direct", cluster, {.segments = kFine}});
    add(jobs, table, name + "optcc k=16", row.optcc16, {"optcc", cluster, {.segments = 16}, PortModel::kOnePort});
    add(jobs, table, name + "optcc k=64", row.optcc64, {"optcc", cluster, {.segments = 64}, PortModel::kOnePort});
    // The reconstruction gives k = 16 only as a bound: at most (1 + 0.98 / k) of the one-port bound.
    add(jobs, table, name + "weighted_ring k=16 (at most)", bound * (1 + 0.98 / 16),
        {"weighted_ring", cluster, {.segments = 16}, PortModel::kOnePort});
    add(jobs, table, name + "weighted_ring k=64", row.weighted64,
        {"weighted_ring", cluster, {.segments = 64}, PortModel::kOnePort});
    add(jobs, table, name + "balance (ring)", row.ring, {"balance", cluster, {}});
    add(jobs, table, name + "r2", row.r2, {"r2", cluster, {.r2_tail = Tuning::Tail::kLostFraction}});
  }
}

struct StragglersRow {
  std::uint32_t members;
  std::vector<std::uint32_t> kept;
  double best, ring;
};

// Section 5: several stragglers; T* and the plain ring over the healthy ring.
void add_stragglers(std::vector<PaperJob>& jobs) {
  const std::vector<StragglersRow> rows{{8, {4, 4}, 1.143, 2.00},        {8, {4, 4, 4}, 1.231, 2.00},
                                        {8, {7, 6, 4}, 1.143, 2.00},     {16, {4, 4}, 1.067, 2.00},
                                        {16, {4, 4, 4, 4}, 1.143, 2.00}, {16, {7, 7, 7, 7}, 1.032, 1.14},
                                        {32, {4, 4, 4, 4}, 1.067, 2.00}, {64, {4, 4, 4, 4, 4, 4, 4, 4}, 1.067, 2.00},
                                        {64, {7, 6, 4, 3}, 1.354, 2.67}};
  for (const StragglersRow& row : rows) {
    const Cluster cluster = ideal_cluster(row.members, 8, row.kept);
    const std::string name = fmt::format("p={} kept {}/8 ", row.members, fmt::join(row.kept, ","));
    add(jobs, "OptCC 5 stragglers", name + "weighted_direct (T*)", row.best,
        {"weighted_direct", cluster, {.segments = kFine}});
    add(jobs, "OptCC 5 stragglers", name + "balance (ring)", row.ring, {"balance", cluster, {}});
  }
}

struct ServersRow {
  std::uint32_t servers, lost;
  double best, ring, r2;
};
// Section 6: eight GPUs a server; T* over the hierarchical healthy ring, Balance, and R²CCL-AllReduce over all GPUs as
// members.
constexpr auto kServersRows = std::to_array<ServersRow>({{4, 1, 1.032, 1.143, 1.074},
                                                         {4, 2, 1.067, 1.333, 1.172},
                                                         {4, 4, 1.333, 2.000, 1.516},
                                                         {8, 1, 1.016, 1.143, 1.073},
                                                         {8, 2, 1.032, 1.333, 1.169},
                                                         {8, 4, 1.143, 2.000, 1.508},
                                                         {16, 1, 1.008, 1.143, 1.072},
                                                         {16, 4, 1.067, 2.000, 1.504},
                                                         {32, 1, 1.004, 1.143, 1.072},
                                                         {32, 4, 1.032, 2.000, 1.502}});

void add_servers(std::vector<PaperJob>& jobs) {
  for (const ServersRow& row : kServersRows) {
    Cluster cluster = ideal_cluster(row.servers, 8, {8 - row.lost});
    cluster.gpus = 8;
    const std::string name = fmt::format("q={} g=8 f={} ", row.servers, row.lost);
    add(jobs, "OptCC 6 servers", name + "weighted_direct (T*)", row.best,
        {"weighted_direct", cluster, {.segments = kFine}});
    add(jobs, "OptCC 6 servers", name + "balance", row.ring, {"balance", cluster, {}});
    add(jobs, "OptCC 6 servers", name + "r2, members are GPUs", row.r2,
        {"r2", ideal_cluster(row.servers * 8, 8, {8 - row.lost}), {.r2_tail = Tuning::Tail::kLostFraction}});
  }
}

}  // namespace

Cluster ideal_cluster(std::uint32_t members, std::uint32_t nics, const std::vector<std::uint32_t>& kept) {
  Cluster cluster = Cluster::uniform(members, 1, nics, 50e9);
  cluster.alpha_s = 0;
  cluster.port_cost_s = 0;
  cluster.min_message = 1;
  cluster.intra_rate = 1e15;
  cluster.intra_alpha_s = 0;
  for (std::uint32_t member = 0; member < kept.size(); ++member) {
    for (std::uint32_t nic = kept[member]; nic < nics; ++nic) {
      R2CCL_ASSERT(lose_nic(cluster, member, nic), "a member keeps a NIC");
    }
  }
  return cluster;
}

std::vector<PaperJob> paper_jobs() {
  std::vector<PaperJob> jobs;
  add_r2_model(jobs);
  add_r2_artifact(jobs);
  add_r2_headline(jobs);
  add_training(jobs);
  add_many_failures(jobs);
  add_optcc(jobs);
  add_stragglers(jobs);
  add_servers(jobs);
  return jobs;
}

}  // namespace r2ccl::sim
