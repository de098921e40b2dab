// The two algorithms for one slow server.

#include <gtest/gtest.h>

#include "planner/algorithm/algorithm.h"
#include "planner/bounds.h"
#include "schedule/check/check.h"

namespace r2ccl {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

Cluster slowed(std::uint32_t servers, std::uint32_t slow, double slowdown) {
  Cluster cluster = Cluster::uniform(servers, 1, 8, 50e9);
  for (std::uint32_t nic = 0; nic < cluster.nics && slowdown > 1; ++nic) {
    EXPECT_TRUE(slow_nic(cluster, slow, nic, 1 / slowdown));
  }
  return cluster;
}

Result<Plan> planned(PlanFunction function, const Cluster& cluster, std::uint32_t segments) {
  Tuning tuning;
  tuning.segments = segments;
  return function({.collective = Collective::kAllReduce, .bytes = kGiB}, cluster, tuning);
}

std::string verdict(const Schedule& schedule) {
  const Result<CheckReport> report = check(schedule);
  return report ? "" : report.error().what;
}

// Shares of the data that each rank sends and receives, of the first `pieces` pieces.
struct Volume {
  std::vector<double> sent;
  std::vector<double> received;
};
Volume volume(const Schedule& schedule, std::uint32_t pieces) {
  Volume v{std::vector<double>(schedule.header.ranks, 0), std::vector<double>(schedule.header.ranks, 0)};
  for (std::uint32_t rank = 0; rank < schedule.header.ranks; ++rank) {
    for (const Lane& lane : schedule.lanes[rank]) {
      for (const Step& step : lane.steps) {
        const auto span = static_cast<std::uint32_t>(step.span.base);
        if (span >= pieces) continue;
        if (sends(step.kind)) v.sent[rank] += schedule.header.layout.share(span);
        if (receives(step.kind)) v.received[rank] += schedule.header.layout.share(span);
      }
    }
  }
  return v;
}

const double kSlowdowns[] = {1, 8.0 / 7, 4.0 / 3, 2, 8.0 / 3, 4};

void all_check(PlanFunction function, std::uint32_t least) {
  for (const std::uint32_t p : {2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 12U, 16U}) {
    if (p < least) continue;
    for (const double l : kSlowdowns) {
      for (const std::uint32_t k : {4U, 8U, 12U}) {
        const std::uint32_t slow = (p + k / 4) % p;
        const Result<Plan> plan = planned(function, slowed(p, slow, l), k);
        ASSERT_TRUE(plan) << plan.error().what;
        ASSERT_EQ(verdict(plan->schedule()), "") << "p " << p << " l " << l << " k " << k;
      }
    }
  }
}

TEST(OptCc, PassesTheChecker) {
  all_check(plan_optcc, 3);
}
TEST(WeightedRing, PassesTheChecker) {
  all_check(plan_weighted_ring, 2);
}

TEST(OptCc, PassesTheCheckerWithManyServersAndLongChainsInASlot) {
  for (const double l : {4.0 / 3, 8.0 / 3}) {
    const Result<Plan> plan = planned(plan_optcc, slowed(33, 7, l), 8);
    ASSERT_TRUE(plan);
    EXPECT_EQ(verdict(plan->schedule()), "") << l;
  }
}

TEST(WeightedRing, PassesTheCheckerWithManyServers) {
  const Result<Plan> plan = planned(plan_weighted_ring, slowed(33, 7, 4.0 / 3), 8);
  ASSERT_TRUE(plan);
  EXPECT_EQ(verdict(plan->schedule()), "");
}

TEST(OptCc, AnyServerMayBeTheSlowOne) {
  for (std::uint32_t slow = 0; slow < 5; ++slow) {
    for (const PlanFunction function : {plan_optcc, plan_weighted_ring}) {
      const Result<Plan> plan = planned(function, slowed(5, slow, 4.0 / 3), 4);
      ASSERT_TRUE(plan);
      EXPECT_EQ(verdict(plan->schedule()), "") << slow;
    }
  }
}

TEST(OptCc, TheSlowServerMovesItsDataOnceEachWay) {
  for (const double l : {2.0, 8.0 / 3}) {
    const Schedule schedule = planned(plan_optcc, slowed(8, 3, l), 8)->schedule();
    const Volume v = volume(schedule, schedule.header.layout.pieces());
    EXPECT_NEAR(v.sent[3], 1, 1e-9);
    EXPECT_NEAR(v.received[3], 1, 1e-9);
  }
}

TEST(OptCc, FillingUsesWhatTheSlowServerHasLeft) {
  for (const double l : {8.0 / 7, 4.0 / 3}) {
    const std::uint32_t p = 8;
    const std::uint32_t k = 16;
    const Schedule schedule = planned(plan_optcc, slowed(p, 3, l), k)->schedule();
    // With filling in steps of two, sections are not cut: the first k (p - 1) pieces.
    double four_stages = 0;
    for (std::uint32_t piece = 0; piece < k * (p - 1); ++piece) four_stages += schedule.header.layout.share(piece);
    const Volume sections = volume(schedule, k * (p - 1));
    EXPECT_NEAR(sections.sent[3], four_stages, 1e-9);
    EXPECT_NEAR(sections.received[3], four_stages, 1e-9);
    const Volume all = volume(schedule, schedule.header.layout.pieces());
    EXPECT_NEAR(all.sent[3], four_stages + (1 - four_stages) * 2 * (p - 1) / p, 1e-6);
    // Every port is as busy as the others: the slow one at its pace.
    const double bound = one_port_bound(static_cast<int>(p), l);
    EXPECT_NEAR(l * all.sent[3], bound, 0.02 * bound);
  }
}

TEST(OptCc, EverySegmentOfSectionsTakesOneBody) {
  const std::uint32_t p = 6;
  const std::uint32_t k = 8;
  const Schedule schedule = planned(plan_optcc, slowed(p, 0, 2), k)->schedule();
  // S is busy in k of the k + 1 bodies each way, with one section in each of their p - 1 slots.
  for (const Lane& lane : schedule.lanes[0]) EXPECT_EQ(lane.steps.size(), k * (p - 1));
  // Every other rank has two ring stages in all slots but one, and that one with S.
  for (std::uint32_t rank = 1; rank < p; ++rank) {
    for (const Lane& lane : schedule.lanes[rank]) EXPECT_EQ(lane.steps.size(), k * (2 * (p - 2) + 1));
  }
  const double slot = 2.0 / (k * (p - 1));
  const double unit_s = static_cast<double>(kGiB) / 400e9;
  EXPECT_NEAR(planned(plan_optcc, slowed(p, 0, 2), k)->predicted_s, (k + 1) * (p - 1) * slot * unit_s, 0.02 * unit_s);
}

TEST(OptCc, TheOrderIsTheSameOnEveryCall) {
  const Cluster cluster = slowed(7, 2, 4.0 / 3);
  for (const PlanFunction function : {plan_optcc, plan_weighted_ring}) {
    EXPECT_EQ(planned(function, cluster, 8)->schedule(), planned(function, cluster, 8)->schedule());
  }
}

TEST(WeightedRing, VolumesFollowTheShares) {
  const std::uint32_t p = 8;
  for (const double l : {1.0, 8.0 / 7, 4.0 / 3, 2.0, 4.0}) {
    const double bound = one_port_bound(static_cast<int>(p), l);
    std::vector<double> w(p, std::max(0.0, 1 - bound / 2));
    w[5] = 1 - (p - 1) * w[0];
    const Schedule schedule = planned(plan_weighted_ring, slowed(p, 5, l), 16)->schedule();
    const Volume v = volume(schedule, schedule.header.layout.pieces());
    for (std::uint32_t rank = 0; rank < p; ++rank) {
      EXPECT_NEAR(v.sent[rank], 2 - w[rank] - w[(rank + 1) % p], 1e-6) << rank;
      EXPECT_NEAR(v.received[rank], 2 - w[rank] - w[(rank + p - 1) % p], 1e-6) << rank;
    }
  }
}

TEST(WeightedRing, HasTwoPeers) {
  const Schedule schedule = planned(plan_weighted_ring, slowed(6, 1, 2), 8)->schedule();
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    for (const Step& step : schedule.lanes[rank][0].steps) EXPECT_EQ(step.to, fixed((rank + 1) % 6));
    for (const Step& step : schedule.lanes[rank][1].steps) EXPECT_EQ(step.from, fixed((rank + 5) % 6));
  }
}

TEST(OptCc, RefusesWhatItIsNotFor) {
  Cluster two = slowed(5, 1, 2);
  ASSERT_TRUE(lose_nic(two, 3, 0));
  for (const PlanFunction function : {plan_optcc, plan_weighted_ring}) {
    const Result<Plan> plan = planned(function, two, 4);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().fault, Fault::kMisuse);
    EXPECT_NE(plan.error().what.find("exactly one degraded server; 2 are"), std::string::npos) << plan.error().what;
  }
  EXPECT_FALSE(planned(plan_optcc, slowed(2, 0, 2), 4));
  const Result<Plan> odd = planned(plan_optcc, slowed(4, 0, 2), 6);
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().what, "optcc needs a multiple of 4 segments; 6 given");
}

TEST(OptCc, ChoosesSegmentsBySize) {
  const Cluster cluster = slowed(8, 1, 2);
  const auto pieces = [&](PlanFunction function, std::uint64_t bytes) {
    return function({.collective = Collective::kAllReduce, .bytes = bytes}, cluster, {})->header.layout.pieces();
  };
  EXPECT_EQ(pieces(plan_optcc, 4 * kGiB), 64U * 7);
  EXPECT_EQ(pieces(plan_optcc, 1 << 20), 4U * 7);
  EXPECT_GT(pieces(plan_weighted_ring, 4 * kGiB), pieces(plan_weighted_ring, 1 << 20));
}

}  // namespace
}  // namespace r2ccl
