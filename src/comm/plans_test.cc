// Which plan a call gets, and what is asked of it besides its algorithm.

#include "comm/plans.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

Call all_reduce(std::uint64_t bytes) {
  Call call;
  call.kind = CallKind::kAllReduce;
  call.type = DataType::kFloat32;
  call.count = bytes / 4;
  return call;
}

std::shared_ptr<const RankPlan> plan(Mode mode, const char* algorithm, const Cluster& cluster, std::uint64_t bytes) {
  Plans plans(mode, algorithm, 0);
  plans.set_healthy(cluster);
  plans.use(cluster, 0);
  return plans.plan_for(all_reduce(bytes)).value();
}

TEST(Plans, OnlyHotRepairAloneKeepsItsRails) {
  Cluster cluster = Cluster::uniform(4, 1, 4, 1e9);
  EXPECT_TRUE(plan(Mode::kRepair, "", cluster, 64 << 20)->keeps_rails);
  EXPECT_FALSE(plan(Mode::kOff, "", cluster, 64 << 20)->keeps_rails);
  EXPECT_FALSE(plan(Mode::kAuto, "ring", cluster, 64 << 20)->keeps_rails);
  cluster.rate[1] = 0;
  EXPECT_TRUE(plan(Mode::kAuto, "repair_only", cluster, 64 << 20)->keeps_rails);
  EXPECT_FALSE(plan(Mode::kBalance, "", cluster, 64 << 20)->keeps_rails);
}

// The first and the last segment of an exchange overlap with nothing; that of a ring's keep the ring busy.
TEST(Plans, AnExchangeIsCutFinerWhereNicsAreSlow) {
  const auto segments = [](const char* algorithm, double nic_rate) {
    return plan(Mode::kAuto, algorithm, Cluster::uniform(4, 1, 4, nic_rate), 256 << 20)->frame.layout.segments;
  };
  EXPECT_EQ(segments("weighted_direct", 12.5e9), 128u);
  EXPECT_EQ(segments("weighted_direct", 62.5e6), 512u);
  EXPECT_EQ(segments("balance", 62.5e6), segments("balance", 12.5e9));
}

}  // namespace
}  // namespace r2ccl
