// Short ways of the timer against the long ones: both must give the same time to the last bit.

#include "sim/cluster/flat_lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/cluster/timing.h"
#include "testing/random_cluster.h"

namespace r2ccl::sim {
namespace {

// A guard that always holds: inner loops whose steps have guards are flattened iteration by iteration.
Schedule one_by_one(Schedule schedule) {
  for (std::vector<Lane>& lanes : schedule.lanes) {
    for (Lane& lane : lanes) {
      for (Step& step : lane.steps) step.guards.push_back({.value = fixed(0), .equals = 0});
    }
  }
  return schedule;
}

bool has_whole_loops(const FlatLanes& flat) {
  return std::ranges::any_of(flat.steps, [](const FlatStep& step) { return step.whole_loop; });
}

TEST(FlatLanes, WholeInnerLoopsTakeAsLongAsTheirIterations) {
  int whole = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    example::Draw draw(seed);
    const Cluster cluster = example::random_cluster(draw, draw.between(2, 7));
    const std::string_view algorithm = draw.one_of<std::string_view>({"r2", "balance", "ring", "hierarchical"});
    const std::uint64_t bytes = std::uint64_t{1} << draw.between(20, 30);
    const Result<Plan> plan = r2ccl::plan(algorithm, {.bytes = bytes}, cluster, {.segments = draw.between(1, 40)});
    if (!plan) continue;
    const Schedule schedule = plan->schedule();
    const Schedule longer = one_by_one(schedule);
    const FlatLanes flat = flatten(schedule, bytes);
    whole += has_whole_loops(flat) ? 1 : 0;
    EXPECT_FALSE(has_whole_loops(flatten(longer, bytes)));
    EXPECT_LE(flat.steps.size(), flatten(longer, bytes).steps.size());
    const PortModel model = draw.one_in(4) ? PortModel::kOnePort : PortModel::kMultiPort;
    const Result<Timing> a = time_schedule(schedule, cluster, bytes, {.model = model});
    const Result<Timing> b = time_schedule(longer, cluster, bytes, {.model = model});
    ASSERT_EQ(a.has_value(), b.has_value()) << algorithm << ", seed " << seed;
    if (!a) continue;
    ASSERT_EQ(a->time_s, b->time_s) << algorithm << ", seed " << seed;
    ASSERT_EQ(a->messages, b->messages);
    ASSERT_EQ(a->intra_messages, b->intra_messages);
    ASSERT_EQ(a->smallest_message, b->smallest_message);
    ASSERT_EQ(a->nic_bytes_out, b->nic_bytes_out) << algorithm << ", seed " << seed;
  }
  EXPECT_GT(whole, 50);
}

// Who wants to see what ports are busy with gets the long way of every message.
TEST(FlatLanes, PinnedMessagesTakeAsLongWhenTheyAreDrawn) {
  int pinned = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    example::Draw draw(seed);
    Cluster cluster = Cluster::uniform(draw.between(3, 7), 1, draw.between(2, 8), 50e9);
    example::damage(cluster, draw);
    const std::uint64_t bytes = std::uint64_t{1} << draw.between(20, 28);
    const std::string_view algorithm = draw.one_of<std::string_view>({"r2", "repair_only", "ring", "recursive"});
    const Result<Plan> plan = r2ccl::plan(algorithm, {.bytes = bytes}, cluster);
    if (!plan) continue;
    const Schedule schedule = plan->schedule();
    pinned += schedule.lanes[0].front().rail >= 0 ? 1 : 0;
    std::vector<Occupancy> drawn;
    const Result<Timing> a = time_schedule(schedule, cluster, bytes, {.whole = true});
    const Result<Timing> b = time_schedule(schedule, cluster, bytes, {.occupancy = &drawn});
    ASSERT_EQ(a.has_value(), b.has_value()) << algorithm << ", seed " << seed;
    if (!a) continue;
    ASSERT_EQ(a->time_s, b->time_s) << algorithm << ", seed " << seed;
    ASSERT_EQ(a->nic_bytes_out, b->nic_bytes_out) << algorithm << ", seed " << seed;
    ASSERT_EQ(a->nic_bytes_in, b->nic_bytes_in) << algorithm << ", seed " << seed;
  }
  EXPECT_GT(pinned, 40);
}

// Steps that wait for the same share their waits, and a list of thousands is no reason to take minutes.
TEST(FlatLanes, StepsThatWaitForTheSameShareTheirWaits) {
  Schedule schedule;
  schedule.header.layout = Layout::equal(1);
  Lane lane{.name = "list", .outer = 2, .steps = {}};
  for (std::uint32_t i = 0; i < 20000; ++i) {
    const Wait wait{.lane = 0, .step = i / 2, .outer_offset = -1};
    lane.steps.push_back({.kind = StepKind::kCopy, .waits = {wait}});
  }
  schedule.lanes = {{lane}};
  EXPECT_EQ(flatten(schedule, 8).waits.size(), 10000u);
}

}  // namespace
}  // namespace r2ccl::sim
