#include "sim/study/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace r2ccl::sim {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{256} << 20;

Cluster with_a_lost_nic(std::uint32_t servers = 6) {
  Cluster cluster = Cluster::uniform(servers, 1, 4, 50e9);
  EXPECT_TRUE(lose_nic(cluster, 1, 2));
  return cluster;
}

Schedule planned(const Cluster& cluster, const Tuning& tuning = {}) {
  return plan("weighted_direct", {.bytes = kBytes}, cluster, tuning)->schedule();
}

TEST(Evaluate, AChangedScheduleChangesTheTime) {
  const Cluster cluster = with_a_lost_nic();
  Proofs proofs;
  Schedule schedule = planned(cluster);
  const double planned_s = evaluate(schedule, kBytes, cluster, proofs)->timing.time_s;
  // Equal ownership is still right, and slower.
  schedule.header.layout.bounds = {0, 1, 2, 3, 4, 5, 6};
  const double equal_s = evaluate(schedule, kBytes, cluster, proofs)->timing.time_s;
  EXPECT_GT(equal_s, 1.05 * planned_s);
  // So is a coarser pipeline.
  const double coarse_s = evaluate(planned(cluster, {.segments = 2}), kBytes, cluster, proofs)->timing.time_s;
  EXPECT_GT(coarse_s, 1.02 * planned_s);
}

TEST(Evaluate, ScratchIsLeftOutWhenItIsNotWanted) {
  const Cluster cluster = with_a_lost_nic();
  Proofs proofs;
  const Schedule schedule = planned(cluster);
  const Result<Evaluation> with = evaluate(schedule, kBytes, cluster, proofs);
  const Result<Evaluation> without = evaluate(schedule, kBytes, cluster, proofs, {.scratch = false});
  EXPECT_EQ(with->scratch_bytes, scratch_bytes(schedule, kBytes));
  EXPECT_GT(with->scratch_bytes, 0u);
  EXPECT_EQ(without->scratch_bytes, 0u);
  EXPECT_EQ(with->timing.time_s, without->timing.time_s);
}

TEST(Evaluate, ARefusedScheduleHasNoTime) {
  const Cluster cluster = with_a_lost_nic();
  Proofs proofs;
  Schedule schedule = planned(cluster);
  schedule.lanes[3][0].steps.pop_back();
  const Result<Evaluation> refused = evaluate(schedule, kBytes, cluster, proofs);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, Fault::kBug);
  EXPECT_THAT(refused.error().what, testing::HasSubstr("the checker refuses weighted_direct"));
}

TEST(Evaluate, OneProofServesAllSharesOfTheSameShape) {
  Proofs proofs;
  for (const std::uint32_t server : {0u, 3u, 5u}) {
    Cluster cluster = Cluster::uniform(6, 1, 4, 50e9);
    ASSERT_TRUE(lose_nic(cluster, server, 1));
    ASSERT_TRUE(proofs.check(planned(cluster, {.segments = 32})));
  }
  EXPECT_EQ(proofs.proven(), 1u);
  ASSERT_TRUE(proofs.check(planned(with_a_lost_nic(), {.segments = 16})));
  EXPECT_EQ(proofs.proven(), 2u);
  ASSERT_TRUE(proofs.check(planned(with_a_lost_nic(7), {.segments = 16})));
  EXPECT_EQ(proofs.proven(), 3u);
}

// Steps on an empty piece are not run by the checker.
TEST(Evaluate, AProofDoesNotServePiecesThatWereEmpty) {
  Proofs proofs;
  Schedule schedule = planned(with_a_lost_nic());
  ASSERT_TRUE(proofs.check(schedule));
  std::vector<std::uint64_t>& bounds = schedule.header.layout.bounds;
  bounds[1] = bounds[2];
  ASSERT_TRUE(proofs.check(schedule));
  EXPECT_EQ(proofs.proven(), 2u);
}

TEST(Evaluate, ADamagedShapeIsNotCoveredByAnEarlierProof) {
  Proofs proofs;
  Schedule schedule = planned(with_a_lost_nic());
  ASSERT_TRUE(proofs.check(schedule));
  schedule.lanes[0][1].steps[0].has_first = false;
  EXPECT_FALSE(proofs.check(schedule));
}

// Auto chooses by predictions: that of a ring that is a wave must not be off by a latency.
TEST(Evaluate, ARingTakesAsLongAsPredicted) {
  for (const std::uint64_t bytes : {std::uint64_t{2} << 20, std::uint64_t{8} << 20, std::uint64_t{256} << 20}) {
    Cluster rails = Cluster::uniform(4, 1, 4, 62.5e6);
    rails.alpha_s = 10e-6;
    rails.port_cost_s = 16e-6;
    Proofs proofs;
    const Result<Evaluation> ring = evaluate("ring", {.bytes = bytes}, rails, proofs);
    ASSERT_TRUE(ring) << ring.error().what;
    EXPECT_NEAR(ring->predicted_s, ring->timing.time_s, 0.1 * rails.alpha_s) << bytes;
  }
}

}  // namespace
}  // namespace r2ccl::sim
