#include "sim/net/collectives/collective_plan.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "sim/net/scenario.h"

namespace r2ccl::sim {
namespace {

constexpr auto kModes =
    std::to_array<const char*>({"auto", "auto", "auto", "off", "repair", "balance", "r2", "optcc", "direct", "trees"});
constexpr auto kAlgorithms = std::to_array<const char*>(
    {"direct", "recursive_doubling", "tree", "ring", "hierarchical", "repair_only", "balance", "r2", "recursive",
     "weighted_ring", "optcc", "weighted_direct", "rotated_direct", "trees", "no such algorithm"});
constexpr auto kTypes = std::to_array<DataType>(
    {DataType::kInt8, DataType::kUint8, DataType::kInt32, DataType::kUint32, DataType::kInt64, DataType::kUint64});
constexpr std::uint64_t kTransferBytesMax = 20'000;
constexpr std::uint32_t kHealingCount = 5000;
constexpr double kHealedShare = 0.3;
constexpr double kLeaveShare = 0.4;

CommConfig draw_config(SimRandom& random, Fabric fabric) {
  CommConfig config;
  config.mode = kModes[random.below(kModes.size())];
  if (random.chance(0.4)) config.algorithm = kAlgorithms[random.below(kAlgorithms.size())];
  config.fabric = fabric;
  if (random.chance(0.7)) config.costs.min_message = random.log_uniform(64, 64e3);
  if (random.chance(0.5)) config.costs.alpha_s = static_cast<double>(random.log_uniform(1, 1000)) * 1e-6;
  return config;
}

PlannedCall draw_call(SimRandom& random, std::uint32_t ranks, bool large) {
  PlannedCall call;
  call.kind = random.chance(0.3) ? CallKind::kAllReduce : static_cast<CallKind>(random.below(8));
  call.type = kTypes[random.below(kTypes.size())];
  call.op = static_cast<ReduceName>(random.below(6));
  call.root = static_cast<std::uint8_t>(random.below(ranks));
  const std::uint64_t bytes = random.log_uniform(1, large && random.chance(0.3) ? 300e3 : 8e3);
  // Counts of one rank's block for most: the whole vector stays as large.
  const bool whole =
      call.kind == CallKind::kAllReduce || call.kind == CallKind::kBroadcast || call.kind == CallKind::kReduce;
  call.count = static_cast<std::uint32_t>(bytes / size_of(call.type) / (whole ? 1 : ranks));
  if (random.chance(0.1)) call.count = static_cast<std::uint32_t>(random.below(3));
  call.in_place = static_cast<std::uint8_t>(random.chance(0.5) ? 0 : random.draw());
  return call;
}

PlannedBatch draw_batch(SimRandom& random, std::uint32_t ranks, bool large) {
  PlannedBatch batch;
  const bool points = random.chance(0.25);
  if (!points || random.chance(0.2)) {
    const std::uint64_t calls = random.chance(0.8) ? 1 : random.between(2, 3);
    for (std::uint64_t i = 0; i < calls; ++i) batch.calls.push_back(draw_call(random, ranks, large));
  }
  for (std::uint64_t i = points ? random.between(1, 6) : 0; i > 0; --i) {
    batch.transfers.push_back(
        {.from = static_cast<std::uint8_t>(random.below(ranks)),
         .to = static_cast<std::uint8_t>(random.below(ranks)),
         .bytes =
             random.chance(0.1) ? 0 : static_cast<std::uint32_t>(random.log_uniform(1, double{kTransferBytesMax}))});
  }
  return batch;
}

void draw_dues(SimRandom& random, PlannedCommunicator& communicator, Duration window) {
  const bool hurry = random.chance(0.3);  // one after another, as fast as they go
  std::vector<Duration> times(communicator.batches.size());
  for (Duration& time : times) time = hurry ? Duration{} : random.between(Duration{}, window);
  std::ranges::sort(times);
  const Duration skew = random.chance(0.5) ? 100us : 20ms;
  for (std::size_t i = 0; i < times.size(); ++i) {
    for (std::uint32_t rank = 0; rank < communicator.size(); ++rank)
      communicator.batches[i].due.push_back(times[i] + random.between(Duration{}, skew));
  }
}

PlannedCommunicator draw_communicator(SimRandom& random, const Scenario& scenario, Duration window,
                                      std::uint64_t batches) {
  PlannedCommunicator communicator;
  communicator.process.resize(scenario.processes);
  std::iota(communicator.process.begin(), communicator.process.end(), std::uint8_t{0});
  if (random.chance(0.6)) {
    for (std::size_t i = communicator.process.size() - 1; i > 0; --i)
      std::swap(communicator.process[i], communicator.process[random.below(i + 1)]);
  }
  communicator.config = draw_config(random, scenario.network.fabric);
  communicator.depth = random.chance(0.5) ? 1 : random.between(2, 5);
  const bool large = random.chance(0.3);
  for (std::uint64_t i = 0; i < batches; ++i)
    communicator.batches.push_back(draw_batch(random, communicator.size(), large));
  draw_dues(random, communicator, window);
  communicator.finish = random.chance(0.7);
  return communicator;
}

bool replans(const PlannedCommunicator& communicator) {
  return communicator.config.mode != "off" && communicator.config.mode != "repair";
}

}  // namespace

void draw_ranks(SimRandom& random, Scenario& scenario) {
  scenario.processes = random.chance(0.5) ? 2 : random.between(3, 5);
  if (scenario.processes > 2 && random.chance(0.4)) scenario.per_server = 2;
}

CollectivePlan draw_collectives(SimRandom& random, const Scenario& scenario, Duration window) {
  CollectivePlan plan;
  const std::uint64_t count = random.chance(0.6) ? 1 : random.between(2, 3);
  for (std::uint64_t i = 0; i < count; ++i) {
    plan.communicators.push_back(draw_communicator(random, scenario, window, random.between(1, 24 / count)));
    if (i > 0 && random.chance(0.5)) plan.communicators.back().create_at = random.between(1us, window);
  }
  plan.until_healed = random.chance(kHealedShare);
  plan.leave = random.chance(kLeaveShare);
  return plan;
}

void tame_collectives(Scenario& scenario) {
  CollectivePlan& plan = *scenario.collectives;
  for (PlannedCommunicator& communicator : plan.communicators) {
    // Joining waits for everybody, however long that takes; and who has finished is not told of deaths.
    if (scenario.plan.lethal()) communicator.create_at = {};
    if (scenario.plan.lethal()) communicator.finish = false;
  }
  // Who aborts has no control network any more: what data paths do not say nobody says, be it that a connection is gone
  // or that the only NIC is back.
  const auto aborts = [](const PlannedAction& action) { return action.kind == PlannedAction::Kind::kAbort; };
  if (std::ranges::any_of(scenario.actions, aborts)) scenario.session.limits.heartbeat = SessionLimits{}.heartbeat;
  if (scenario.aborts(0)) {
    std::erase_if(scenario.actions, std::not_fn(aborts));
  }
  if (scenario.plan.lethal() || scenario.aborts(0) || !replans(plan.communicators[0])) plan.until_healed = false;
  if (scenario.plan.lethal() || scenario.aborts(0)) plan.leave = false;
  for (PlannedCommunicator& communicator : plan.communicators) communicator.finish |= plan.leave;
}

const PlannedBatch& batch_of(const PlannedCommunicator& communicator, std::size_t index) {
  static const PlannedBatch healing{.calls = {{.count = kHealingCount}}, .transfers = {}, .due = {}};
  return index < communicator.batches.size() ? communicator.batches[index] : healing;
}

}  // namespace r2ccl::sim
