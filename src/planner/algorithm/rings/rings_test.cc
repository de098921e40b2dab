// All rings and what is made of them: proven by the checker, and loads counted from the schedules.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "planner/algorithm/algorithm.h"
#include "schedule/check/check.h"
#include "schedule/cursor.h"

namespace r2ccl {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{1} << 30;
constexpr std::uint32_t kNics[] = {1, 2, 3, 8};

Request all_reduce(std::uint64_t bytes = kBytes) {
  return {.collective = Collective::kAllReduce, .bytes = bytes};
}

Cluster healthy(std::uint32_t servers, std::uint32_t gpus, std::uint32_t nics, Fabric fabric = Fabric::kRouted) {
  Cluster cluster = Cluster::uniform(servers, gpus, nics, 50e9);
  cluster.fabric = fabric;
  return cluster;
}

Cluster one_lost(std::uint32_t servers, std::uint32_t nics, std::uint32_t server, std::uint32_t lost,
                 Fabric fabric = Fabric::kRouted) {
  Cluster cluster = healthy(servers, 1, nics, fabric);
  for (std::uint32_t nic = 0; nic < lost; ++nic) EXPECT_TRUE(lose_nic(cluster, server, nic));
  return cluster;
}

// Any NICs lost or slowed, at most `faults`.
Cluster damaged(std::mt19937& random, std::uint32_t servers, std::uint32_t nics, std::uint32_t faults) {
  Cluster cluster = healthy(servers, 1, nics);
  for (std::uint32_t i = 0; i < faults; ++i) {
    const auto server = static_cast<std::uint32_t>(random() % servers);
    const auto nic = static_cast<std::uint32_t>(random() % nics);
    if (random() % 3 == 0) {
      EXPECT_TRUE(slow_nic(cluster, server, nic, 0.1 + 0.2 * static_cast<double>(random() % 4)));
    } else {
      (void)lose_nic(cluster, server, nic);  // refused for the last one of a server
    }
  }
  return cluster;
}

void expect_proven(const Result<Plan>& plan) {
  ASSERT_TRUE(plan) << plan.error().what;
  EXPECT_GT(plan->predicted_s, 0);
  const Result<CheckReport> report = check(plan->schedule());
  EXPECT_TRUE(report) << report.error().what;
}

// Shares of the data that a rank sends, by rail of the lane (the last: any rail).
std::vector<double> sent_by(const Plan& plan, std::uint32_t rank, std::uint32_t nics) {
  std::vector<double> sent(nics + 1, 0);
  for (const Lane& lane : plan.lanes(rank)) {
    for (LaneCursor at(lane); !at.done(); at.next()) {
      if (!sends(at.step().kind)) continue;
      sent[lane.rail == kAnyRail ? nics : static_cast<std::uint32_t>(lane.rail)] +=
          plan.header.layout.share(static_cast<std::uint32_t>(at.span()));
    }
  }
  return sent;
}

double all_sent(const Plan& plan, std::uint32_t rank, std::uint32_t nics) {
  const std::vector<double> sent = sent_by(plan, rank, nics);
  return std::accumulate(sent.begin(), sent.end(), 0.0);
}

double received_by(const Plan& plan, std::uint32_t rank) {
  double received = 0;
  for (const Lane& lane : plan.lanes(rank)) {
    for (LaneCursor at(lane); !at.done(); at.next()) {
      if (receives(at.step().kind)) received += plan.header.layout.share(static_cast<std::uint32_t>(at.span()));
    }
  }
  return received;
}

TEST(Rings, HealthyRingsAreProvenForManyShapes) {
  for (const std::uint32_t m : kNics) {
    for (const std::uint32_t p : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 9U, 16U, 33U}) {
      SCOPED_TRACE(testing::Message() << p << " servers, " << m << " NICs");
      const Result<Plan> plan = plan_server_ring(all_reduce(), healthy(p, 1, m), {});
      ASSERT_TRUE(plan) << plan.error().what;
      EXPECT_TRUE(check(plan->schedule()));
    }
  }
}

TEST(Rings, FlatRingsAreProvenForSeveralGpus) {
  for (const std::uint32_t m : kNics) {
    for (const std::uint32_t g : {1U, 2U, 4U, 8U}) {
      for (const std::uint32_t q : {1U, 2U, 3U, 5U}) {
        SCOPED_TRACE(testing::Message() << q << " servers, " << g << " GPUs, " << m << " NICs");
        const Result<Plan> plan = plan_ring(all_reduce(), healthy(q, g, m), {});
        ASSERT_TRUE(plan) << plan.error().what;
        EXPECT_TRUE(check(plan->schedule()));
      }
    }
  }
}

TEST(Rings, AnyNumberOfSegmentsIsProven) {
  for (const std::uint32_t segments : {1U, 2U, 3U, 5U, 64U}) {
    const Tuning tuning{.segments = segments};
    expect_proven(plan_server_ring(all_reduce(), healthy(4, 1, 2), tuning));
    expect_proven(plan_r2(all_reduce(), one_lost(4, 2, 0, 1), tuning));
    std::mt19937 random(7);
    expect_proven(plan_recursive(all_reduce(), damaged(random, 6, 4, 4), tuning));
  }
}

// What is on its way between few members is bounded, however much data there are.
TEST(Rings, AFewMembersNeedNoMoreMemoryForMoreData) {
  for (const std::uint32_t p : {2U, 4U, 8U, 16U}) {
    for (const std::uint32_t m : {1U, 4U}) {
      SCOPED_TRACE(testing::Message() << p << " servers, " << m << " NICs");
      const auto scratch = [&](std::uint64_t bytes) {
        const Result<Plan> plan = plan_server_ring(all_reduce(bytes), healthy(p, 1, m), {});
        expect_proven(plan);
        return scratch_bytes(plan->schedule(), bytes);
      };
      EXPECT_LE(scratch(kBytes), std::uint64_t{64} << 20);
      EXPECT_LE(scratch(4 * kBytes), std::uint64_t{64} << 20);
    }
  }
}

TEST(Rings, EveryRailOfTheFlatRingEntersAServerAtItsOwnGpu) {
  const Cluster cluster = healthy(2, 4, 4);
  const Result<Plan> plan = plan_ring(all_reduce(), cluster, {});
  ASSERT_TRUE(plan);
  for (std::uint32_t rail = 0; rail < 4; ++rail) {
    for (std::uint32_t gpu = 0; gpu < 4; ++gpu) {
      const Lane lane = plan->lanes(gpu)[rail];
      EXPECT_EQ(lane.rail, static_cast<std::int32_t>(rail));
      EXPECT_EQ(lane.steps.back().from.at(0, 0) >= 4, gpu == rail) << "rail " << rail << ", GPU " << gpu;
    }
  }
}

TEST(Rings, RingsThatNeedAllNicsSaySoAndPointToBalance) {
  const Cluster cluster = one_lost(4, 2, 1, 1);
  for (const PlanFunction plan : {plan_ring, plan_server_ring}) {
    const Result<Plan> refused = plan(all_reduce(), cluster, {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().fault, Fault::kMisuse);
    EXPECT_NE(refused.error().what.find("balance"), std::string::npos);
  }
  for (const PlanFunction plan : {plan_server_ring, plan_repair_only, plan_balance, plan_r2, plan_recursive}) {
    EXPECT_FALSE(plan(all_reduce(), healthy(4, 2, 2), {})) << "several GPUs are for hierarchical";
  }
}

TEST(Rings, RepairOnlyPutsTwoSharesOnOneNic) {
  for (const Fabric fabric : {Fabric::kRouted, Fabric::kRails}) {
    const Cluster cluster = one_lost(4, 8, 1, 2, fabric);
    const Result<Plan> plan = plan_repair_only(all_reduce(), cluster, {});
    expect_proven(plan);
    std::vector<std::uint32_t> rings(8, 0);
    for (std::uint32_t rail = 0; rail < 8; ++rail) ++rings[plan->header.nic_of_rail[8 + rail]];
    EXPECT_EQ(rings, (std::vector<std::uint32_t>{0, 0, 2, 2, 1, 1, 1, 1}));
    const Result<Plan> ring = plan_server_ring(all_reduce(), healthy(4, 1, 8), {});
    EXPECT_NEAR(plan->predicted_s / ring->predicted_s, 2, 0.01);
  }
}

TEST(Rings, BalanceIsProvenForRandomDamageOnBothFabrics) {
  std::mt19937 random(1);
  for (std::uint32_t i = 0; i < 60; ++i) {
    Cluster cluster = damaged(random, 2 + i % 8, kNics[i % 4], 1 + i % 5);
    SCOPED_TRACE(i);
    expect_proven(plan_balance(all_reduce(), cluster, {}));
    cluster.fabric = Fabric::kRails;
    const Result<Plan> plan = plan_balance(all_reduce(), cluster, {});
    if (!plan) continue;  // no common rail
    expect_proven(plan);
    EXPECT_FALSE(plan->header.shares.empty());
  }
}

TEST(Rings, BalanceTakesTheInverseOfWhatIsLeft) {
  Cluster cluster = one_lost(8, 8, 3, 2);
  cluster.alpha_s = cluster.port_cost_s = 0;
  const Result<Plan> plan = plan_balance(all_reduce(), cluster, {});
  ASSERT_TRUE(plan);
  EXPECT_NEAR(plan->predicted_s, 2.0 * 7 / 8 * kBytes / 300e9, 1e-9);
}

TEST(Rings, SharesOfAPairFollowTheCommonRates) {
  Cluster cluster = healthy(4, 1, 4, Fabric::kRails);
  ASSERT_TRUE(lose_nic(cluster, 0, 1));
  ASSERT_TRUE(slow_nic(cluster, 2, 3, 0.5));
  const Result<Plan> plan = plan_balance(all_reduce(), cluster, {});
  ASSERT_TRUE(plan);
  const std::uint16_t* shares = plan->header.shares.of(0, 2);
  EXPECT_EQ(shares[1], 0);
  EXPECT_NEAR(shares[0], kShareUnit / 2.5, 1);
  EXPECT_NEAR(shares[3], kShareUnit / 5.0, 1);
  EXPECT_EQ(std::accumulate(shares, shares + 4, 0U), kShareUnit);
}

TEST(Rings, R2IsProvenForEveryPlaceAndLoss) {
  for (const Fabric fabric : {Fabric::kRouted, Fabric::kRails}) {
    for (const std::uint32_t m : {2U, 3U, 8U}) {
      for (const std::uint32_t n : {3U, 4U, 5U, 6U, 7U, 8U, 9U, 16U, 33U}) {
        SCOPED_TRACE(testing::Message() << n << " servers, " << m << " NICs");
        const Cluster cluster = one_lost(n, m, (n + m) % n, 1 + n % (m - 1), fabric);
        // Data so small that few segments are made, for speed.
        expect_proven(plan_r2(all_reduce(std::uint64_t{n} * m << 17), cluster, {}));
        expect_proven(plan_r2(all_reduce(std::uint64_t{n} * m << 17), cluster, {.r2_chunks = 1 + n % 4}));
      }
    }
  }
}

TEST(Rings, R2IsProvenWhenANicIsSlowAndAtBothEndsOfTheRing) {
  for (const std::uint32_t server : {0U, 4U}) {
    Cluster cluster = healthy(5, 1, 4);
    ASSERT_TRUE(slow_nic(cluster, server, 2, 0.3));
    ASSERT_TRUE(lose_nic(cluster, server, 3));
    expect_proven(plan_r2(all_reduce(), cluster, {.segments = 3}));
    expect_proven(plan_r2(all_reduce(), cluster, {.segments = 8, .r2_chunks = 3}));
    Cluster single = healthy(5, 1, 1);
    ASSERT_TRUE(slow_nic(single, server, 0, 0.5));
    expect_proven(plan_r2(all_reduce(), single, {}));
  }
}

TEST(Rings, R2MovesLessThroughTheDegradedServer) {
  for (const std::uint32_t lost : {1U, 2U, 4U}) {
    for (const std::uint32_t n : {3U, 4U, 8U, 16U}) {
      const double x = lost / 8.0;
      const double optimal = (n - 1.0) * (n - 1.0) * x / (n * (n - 2.0) + x);
      for (const bool exact : {false, true}) {
        const double y = exact ? optimal : x;
        const Tuning tuning{.segments = 2, .r2_tail = exact ? Tuning::Tail::kOptimal : Tuning::Tail::kLostFraction};
        const Result<Plan> plan = plan_r2(all_reduce(), one_lost(n, 8, 1, lost), tuning);
        ASSERT_TRUE(plan) << plan.error().what;
        const double degraded = 2 * (n - 1.0) / n * (1 - y) + y;
        const double other = 2 * (n - 1.0) / n * (1 - y) + 2 * (n - 2.0) / (n - 1) * y + y;
        EXPECT_NEAR(all_sent(*plan, 1, 8) / degraded, 1, 1e-3);
        EXPECT_NEAR(received_by(*plan, 1) / degraded, 1, 1e-3);
        for (const std::uint32_t server : {0U, 2U}) {
          EXPECT_NEAR(all_sent(*plan, server, 8) / other, 1, 1e-3);
          EXPECT_NEAR(received_by(*plan, server) / other, 1, 1e-3);
        }
      }
    }
  }
}

TEST(Rings, R2LeavesTheLostNicToTheRingOfTheHealthy) {
  const Result<Plan> plan = plan_r2(all_reduce(), one_lost(6, 8, 0, 1), {.segments = 2});
  ASSERT_TRUE(plan);
  const std::vector<double> degraded = sent_by(*plan, 0, 8);
  const std::vector<double> other = sent_by(*plan, 3, 8);
  // Rails are the server's NICs from the fastest to the slowest.
  EXPECT_EQ(plan->header.nic_of_rail[7], 0);
  EXPECT_EQ(degraded[7], 0);
  for (std::uint32_t rail = 0; rail < 8; ++rail)
    EXPECT_NEAR(other[rail], other[0], other[0] * 1e-3) << "all rings end together";
}

TEST(Rings, R2SaysWhenItDoesNotApply) {
  const auto sentence = [](const Cluster& cluster, std::uint32_t chunks = 0) {
    const Result<Plan> plan = plan_r2(all_reduce(), cluster, {.r2_chunks = chunks});
    return plan ? std::string() : plan.error().what;
  };
  Cluster two = one_lost(4, 2, 1, 1);
  ASSERT_TRUE(lose_nic(two, 3, 1));
  EXPECT_NE(sentence(two).find("recursive"), std::string::npos);
  EXPECT_NE(sentence(healthy(4, 1, 2)).find("none"), std::string::npos);
  EXPECT_NE(sentence(one_lost(2, 2, 0, 1)).find("3 servers"), std::string::npos);
  EXPECT_NE(sentence(one_lost(4, 2, 1, 1), 1000).find("512"), std::string::npos);
}

TEST(Rings, RecursiveIsProvenForRandomDamageOnBothFabrics) {
  std::mt19937 random(2);
  std::uint32_t planned = 0;
  for (std::uint32_t i = 0; i < 80; ++i) {
    const std::uint32_t n = i % 20 == 19 ? (i % 40 == 39 ? 16 : 33) : 2 + i % 8;
    const std::uint32_t m = kNics[i / 8 % 4];
    Cluster cluster = damaged(random, n, m, 1 + i % 7);
    cluster.fabric = i % 3 == 0 ? Fabric::kRails : Fabric::kRouted;
    SCOPED_TRACE(testing::Message() << i << ": " << n << " servers, " << m << " NICs");
    const Result<Plan> plan = plan_recursive(all_reduce(std::uint64_t{n} * m << 17), cluster, {});
    if (!plan && cluster.fabric == Fabric::kRails) continue;
    expect_proven(plan);
    ++planned;
  }
  EXPECT_GT(planned, 65U);
}

TEST(Rings, RecursiveWithOneSlowServerIsR2) {
  const Cluster cluster = one_lost(5, 4, 2, 1);
  const Result<Plan> r2 = plan_r2(all_reduce(), cluster, {});
  const Result<Plan> recursive = plan_recursive(all_reduce(), cluster, {});
  ASSERT_TRUE(r2 && recursive);
  EXPECT_EQ(recursive->header.algorithm, "recursive");
  EXPECT_EQ(r2->schedule().lanes, recursive->schedule().lanes);
  EXPECT_EQ(r2->predicted_s, recursive->predicted_s);
}

TEST(Rings, RecursiveMovesAPartOnceThroughTheServersItExcludes) {
  Cluster cluster = healthy(6, 1, 8);
  ASSERT_TRUE(lose_nic(cluster, 1, 0));
  ASSERT_TRUE(lose_nic(cluster, 4, 5));
  const Result<Plan> plan = plan_recursive(all_reduce(), cluster, {.segments = 2});
  ASSERT_TRUE(plan);
  // Levels: 6 servers at 7 NICs, 4 at 1 more; shares such that both rings end together.
  const double main = 7.0 * 6 / 10;
  const double sub = 1.0 * 4 / 6;
  const double y = sub / (main + sub);
  const double slow = 10.0 / 6 * (1 - y) + y;
  const double fast = 10.0 / 6 * (1 - y) + 6.0 / 4 * y + (3 + 2) / 4.0 * y;
  EXPECT_NEAR(all_sent(*plan, 1, 8) / slow, 1, 1e-3);
  EXPECT_NEAR(all_sent(*plan, 4, 8) / slow, 1, 1e-3);
  EXPECT_NEAR(all_sent(*plan, 0, 8) / fast, 1, 1e-3);
  EXPECT_NEAR(received_by(*plan, 0) / fast, 1, 1e-3);
}

TEST(Rings, RecursiveIsPredictedNoWorseThanBalanceOnARoutedFabric) {
  std::mt19937 random(3);
  for (std::uint32_t i = 0; i < 200; ++i) {
    Cluster cluster = healthy(3 + i % 30, 1, 8);
    for (std::uint32_t f = 0; f < 1 + i % 6; ++f) (void)lose_nic(cluster, random() % cluster.servers, random() % 8);
    cluster.alpha_s = cluster.port_cost_s = 0;
    const Result<Plan> recursive = plan_recursive(all_reduce(), cluster, {.segments = 64});
    const Result<Plan> balance = plan_balance(all_reduce(), cluster, {});
    ASSERT_TRUE(recursive && balance);
    EXPECT_LE(recursive->predicted_s, balance->predicted_s * 1.01) << i;
  }
}

TEST(Rings, PlansAreTheSameEveryTime) {
  std::mt19937 random(4);
  const Cluster cluster = damaged(random, 9, 8, 6);
  for (const PlanFunction plan : {plan_repair_only, plan_balance, plan_recursive}) {
    const Result<Plan> a = plan(all_reduce(), cluster, {});
    const Result<Plan> b = plan(all_reduce(), cluster, {});
    ASSERT_TRUE(a && b);
    EXPECT_EQ(a->schedule(), b->schedule());
  }
}

}  // namespace
}  // namespace r2ccl
