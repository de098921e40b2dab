#include "sim/cluster/long_pipeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "planner/plan.h"
#include "sim/cluster/timing.h"
#include "sim/study/sweep.h"
#include "testing/random_cluster.h"

namespace r2ccl::sim {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(LongPipeline, ShortRunsGiveTheTimeOfWholeOnes) {
  std::uint32_t shortened = 0;
  double sum = 0;
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    example::Draw draw(seed);
    const Cluster cluster = example::random_cluster(draw, draw.between(2, 20));
    if (!example::joined(cluster)) continue;
    const std::uint64_t bytes = kGiB >> draw.below(4);
    const Result<Plan> plan = r2ccl::plan("auto", {.bytes = bytes}, cluster, {});
    if (!plan) continue;
    const Schedule schedule = plan->schedule();
    if (!pipeline_of(flatten(schedule, bytes), schedule.header)) continue;
    ++shortened;
    const Result<Timing> quick = time_schedule(schedule, cluster, bytes);
    const Result<Timing> whole = time_schedule(schedule, cluster, bytes, {.whole = true});
    ASSERT_TRUE(quick && whole) << "seed " << seed;
    const double off = quick->time_s / whole->time_s - 1;
    sum += std::abs(off);
    EXPECT_LE(std::abs(off), 1.5e-3) << "seed " << seed << ": " << schedule.header.algorithm << ", "
                                     << example::describe({.bytes = bytes}, cluster);
    EXPECT_EQ(quick->messages, whole->messages) << "seed " << seed;
    EXPECT_EQ(quick->intra_messages, whole->intra_messages) << "seed " << seed;
    EXPECT_EQ(quick->smallest_message, whole->smallest_message) << "seed " << seed;
    for (std::size_t nic = 0; nic < cluster.rate.size(); ++nic) {
      EXPECT_NEAR(quick->nic_bytes_out[nic], whole->nic_bytes_out[nic], 0.02 * static_cast<double>(bytes)) << seed;
      EXPECT_NEAR(quick->nic_bytes_in[nic], whole->nic_bytes_in[nic], 0.02 * static_cast<double>(bytes)) << seed;
    }
  }
  EXPECT_GE(shortened, 50U);
  EXPECT_LE(sum / shortened, 2e-4);
}

// Of seed 207 one server falls behind the others so slowly that a short run alone would be wrong by 0.23 %.
TEST(LongPipeline, FewRoundsAreEnoughForManyLanes) {
  for (const auto& [servers, lost, seed] : {std::tuple{32U, 1U, 1U}, {32U, 5U, 2U}, {64U, 10U, 207U}}) {
    Cluster cluster = Cluster::uniform(servers, 8, 8, 50e9);
    draw_damage(cluster, lost, false, seed);
    const Schedule schedule = r2ccl::plan("weighted_direct", {.bytes = kGiB}, cluster, {})->schedule();
    const std::optional<LongPipeline> pipeline = pipeline_of(flatten(schedule, kGiB), schedule.header);
    ASSERT_TRUE(pipeline);
    EXPECT_LE(pipeline->shorter, pipeline->rounds / 4);
    const Result<Timing> quick = time_schedule(schedule, cluster, kGiB);
    const Result<Timing> whole = time_schedule(schedule, cluster, kGiB, {.whole = true});
    ASSERT_TRUE(quick && whole);
    EXPECT_NEAR(quick->time_s / whole->time_s, 1, 1.5e-3) << servers << " servers, seed " << seed;
  }
}

// Four servers exchange faster than their GPUs gather: lanes between servers alone would say 1 to 2 % less.
TEST(LongPipeline, WhereTheFabricDecidesAllRoundsAreRun) {
  for (const std::uint32_t lost : {0U, 1U}) {
    Cluster cluster = Cluster::uniform(4, 8, 8, 50e9);
    draw_damage(cluster, lost, false, 1);
    for (const std::uint32_t segments : {48U, 64U, 96U}) {
      const Schedule schedule =
          r2ccl::plan("weighted_direct", {.bytes = kGiB / 4}, cluster, {.segments = segments})->schedule();
      const Result<Timing> quick = time_schedule(schedule, cluster, kGiB / 4);
      const Result<Timing> whole = time_schedule(schedule, cluster, kGiB / 4, {.whole = true});
      ASSERT_TRUE(quick && whole);
      EXPECT_NEAR(quick->time_s / whole->time_s, 1, 1.5e-3) << lost << " lost, " << segments << " segments";
    }
  }
}

TEST(LongPipeline, OnlySomeRoundsOfALongOneAreRun) {
  Cluster cluster = Cluster::uniform(16, 1, 8, 50e9);
  ASSERT_TRUE(lose_nic(cluster, 3, 1));
  const Schedule schedule = r2ccl::plan("weighted_direct", {.bytes = kGiB}, cluster, {})->schedule();
  FlatLanes flat = flatten(schedule, kGiB);
  const std::optional<LongPipeline> pipeline = pipeline_of(flat, schedule.header);
  ASSERT_TRUE(pipeline);
  EXPECT_LE(pipeline->shorter, pipeline->rounds / 4);
  // Leaving rounds out and putting them back changes nothing.
  const FlatLanes before = flat;
  const std::int64_t left_out = std::int64_t{pipeline->rounds} - pipeline->shorter;
  stretch(flat, pipeline->start, -left_out);
  EXPECT_LT(traffic_of(flat, cluster).messages, traffic_of(before, cluster).messages / 3);
  stretch(flat, pipeline->start, left_out);
  EXPECT_EQ(traffic_of(flat, cluster).messages, traffic_of(before, cluster).messages);
  EXPECT_EQ(flat.end_count, before.end_count);
}

// Occupancy is drawn on the way that holds for any NICs; without it messages between GPUs that have one NIC each take
// the short one.
TEST(LongPipeline, MessagesOverOneOwnNicTakeTheSameTimeEitherWay) {
  std::uint32_t timed_both = 0;
  for (const std::uint32_t lost : {0U, 1U, 3U}) {
    Cluster cluster = Cluster::uniform(6, 8, 8, 50e9);
    draw_damage(cluster, lost, false, lost);
    for (const char* algorithm : {"weighted_direct", "rotated_direct", "hierarchical"}) {
      const Result<Plan> plan = r2ccl::plan(algorithm, {.bytes = kGiB}, cluster, {.segments = 8});
      if (!plan) continue;  // rotated_direct may not apply
      ++timed_both;
      const Schedule schedule = plan->schedule();
      std::vector<Occupancy> occupancy;
      const Result<Timing> shown = time_schedule(schedule, cluster, kGiB, {.occupancy = &occupancy});
      const Result<Timing> timed = time_schedule(schedule, cluster, kGiB, {.whole = true});
      ASSERT_TRUE(shown && timed);
      EXPECT_EQ(timed->time_s, shown->time_s) << algorithm << ", " << lost << " lost";
      EXPECT_EQ(timed->nic_bytes_out, shown->nic_bytes_out) << algorithm << ", " << lost << " lost";
      EXPECT_EQ(timed->nic_bytes_in, shown->nic_bytes_in) << algorithm << ", " << lost << " lost";
    }
  }
  EXPECT_GE(timed_both, 6U);
}

TEST(LongPipeline, KeptLanesGiveTheTimeOfFreshOnes) {
  FlatLanes kept;
  const Schedule first =
      r2ccl::plan("weighted_direct", {.bytes = kGiB}, Cluster::uniform(16, 8, 8, 50e9), {})->schedule();
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    Cluster cluster = Cluster::uniform(16, 8, 8, 50e9);
    draw_damage(cluster, 4, false, seed);
    const std::uint64_t bytes = kGiB >> seed % 2;
    Schedule schedule = r2ccl::plan("weighted_direct", {.bytes = kGiB}, cluster, {})->schedule();
    ASSERT_EQ(schedule.lanes, first.lanes);
    if (seed == 2) {  // a piece without bytes: steps are left out that were there before
      std::vector<std::uint64_t>& bounds = schedule.header.layout.bounds;
      bounds[1] = bounds[0];
    }
    const Result<Timing> fresh = time_schedule(schedule, cluster, bytes);
    const Result<Timing> again = time_schedule(schedule, cluster, bytes, {}, &kept);
    ASSERT_TRUE(fresh && again);
    EXPECT_EQ(again->time_s, fresh->time_s) << "seed " << seed;
    EXPECT_EQ(again->messages, fresh->messages) << "seed " << seed;
    EXPECT_EQ(kept.lanes.front().outer, flatten(schedule, bytes).lanes.front().outer);
  }
}

TEST(LongPipeline, FewSegmentsAreNone) {
  const Cluster cluster = Cluster::uniform(4, 1, 8, 50e9);
  const Schedule schedule = r2ccl::plan("weighted_direct", {.bytes = kGiB}, cluster, {.segments = 8})->schedule();
  EXPECT_FALSE(pipeline_of(flatten(schedule, kGiB), schedule.header));
}

}  // namespace
}  // namespace r2ccl::sim
