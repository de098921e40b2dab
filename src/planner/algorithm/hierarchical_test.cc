// Several GPUs per server: every schedule is proven, for many shapes, failures and fabrics.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "base/sanitized.h"
#include "planner/algorithm/algorithm.h"
#include "schedule/check/check.h"
#include "schedule/cursor.h"

namespace r2ccl {
namespace {

constexpr std::uint64_t kBytes = 256 << 20;

Cluster with_losses(std::uint32_t servers, std::uint32_t gpus, Fabric fabric, std::uint32_t seed) {
  Cluster cluster = Cluster::uniform(servers, gpus, 8, 50e9);
  cluster.fabric = fabric;
  std::mt19937 random(seed);
  for (std::uint32_t i = 0; i < seed % 5; ++i) {
    const std::uint32_t server = random() % servers;
    const std::uint32_t nic = random() % 8;
    const Status hit = random() % 2 == 0 ? lose_nic(cluster, server, nic) : slow_nic(cluster, server, nic, 0.3);
    EXPECT_TRUE(hit);
  }
  return cluster;
}

Request all_reduce() {
  return {.collective = Collective::kAllReduce, .bytes = kBytes};
}

void expect_proven(const Result<Plan>& plan, const std::string& what) {
  ASSERT_TRUE(plan) << what << ": " << plan.error().what;
  EXPECT_GT(plan->predicted_s, 0) << what;
  const Result<CheckReport> report = check(plan->schedule());
  ASSERT_TRUE(report) << what << ": " << report.error().what;
}

// Messages between servers that all ranks send with non-empty ranges, and the bytes of the largest.
struct Between {
  std::uint64_t messages = 0;
  double largest_share = 0;
};
Between between_servers(const Plan& plan) {
  Between found;
  const Layout& layout = plan.header.layout;
  for (std::uint32_t rank = 0; rank < plan.header.ranks; ++rank) {
    for (const Lane& lane : plan.lanes(rank)) {
      for (LaneCursor cursor(lane); !cursor.done(); cursor.next()) {
        if (!sends(cursor.step().kind)) continue;
        const double share = layout.share(static_cast<std::uint32_t>(cursor.span()));
        const bool local = cursor.to() / plan.header.ranks_per_server == rank / plan.header.ranks_per_server;
        if (share == 0 || local) continue;
        ++found.messages;
        found.largest_share = std::max(found.largest_share, share);
      }
    }
  }
  return found;
}

using Shape = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // servers, GPUs, segments
std::string name_of(const testing::TestParamInfo<Shape>& info) {
  return fmt::format("q{}_g{}_K{}", std::get<0>(info.param), std::get<1>(info.param), std::get<2>(info.param));
}

class ManyShapes : public testing::TestWithParam<Shape> {
 protected:
  void prove(const char* name, PlanFunction plan) const {
    const auto [q, g, k] = GetParam();
    const Tuning tuning{.segments = k};
    for (const Fabric fabric : {Fabric::kRouted, Fabric::kRails}) {
      const std::uint32_t seed = q * 31 + g * 7 + k;
      expect_proven(plan(all_reduce(), with_losses(q, g, fabric, seed), tuning),
                    fmt::format("{} q {} g {} K {} {} seed {}", name, q, g, k,
                                fabric == Fabric::kRails ? "rails" : "routed", seed));
    }
  }
  void prove_healthy(const char* name, PlanFunction plan) const {
    const auto [q, g, k] = GetParam();
    expect_proven(plan(all_reduce(), Cluster::uniform(q, g, 8, 50e9), {.segments = k}),
                  fmt::format("{} q {} g {} K {}", name, q, g, k));
  }
};

TEST_P(ManyShapes, WeightedDirectLiftedIsProven) {
  prove("weighted_direct", [](const Request& r, const Cluster& c, const Tuning& t) {
    return hierarchical(r, c, t, plan_weighted_direct);
  });
}
TEST_P(ManyShapes, RingsLiftedAreProven) {
  prove_healthy("server_ring", [](const Request& r, const Cluster& c, const Tuning& t) {
    return hierarchical(r, c, t, plan_server_ring);
  });
  prove("balance",
        [](const Request& r, const Cluster& c, const Tuning& t) { return hierarchical(r, c, t, plan_balance); });
}
TEST_P(ManyShapes, RotatedDirectIsProven) {
  const auto [servers, gpus, segments] = GetParam();
  if (servers < gpus) {  // whole messages can not rotate over more GPUs than there are servers
    const auto refused = plan_rotated_direct(all_reduce(), with_losses(servers, gpus, Fabric::kRouted, 1), {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().fault, Fault::kMisuse);
    return;
  }
  prove("rotated_direct", plan_rotated_direct);
}

INSTANTIATE_TEST_SUITE_P(Small, ManyShapes,
                         testing::Combine(testing::Range(2U, 10U), testing::Values(2U, 3U, 4U, 8U),
                                          testing::Values(1U, 2U, 5U, 16U)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(OddGpus, ManyShapes,
                         testing::Combine(testing::Values(7U, 9U), testing::Values(5U, 6U, 7U), testing::Values(5U)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Large, ManyShapes,
                         testing::Combine(testing::Values(16U, 33U), testing::Values(8U), testing::Values(5U)),
                         name_of);

TEST(Hierarchical, IsTheAlgorithmItselfWithOneGpu) {
  const Cluster cluster = with_losses(5, 1, Fabric::kRouted, 3);
  const Result<Plan> plain = plan_weighted_direct(all_reduce(), cluster, {});
  const Result<Plan> lifted = hierarchical(all_reduce(), cluster, {}, plan_weighted_direct);
  ASSERT_TRUE(plain && lifted);
  EXPECT_EQ(lifted->schedule(), plain->schedule());
}

TEST(Hierarchical, OneServerNeedsNobodyElse) {
  expect_proven(hierarchical(all_reduce(), Cluster::uniform(1, 8, 8, 50e9), {}, plan_weighted_direct), "one server");
}

TEST(Hierarchical, ShardsHaveMessagesOfTheShardOnly) {
  const Result<Plan> plan =
      hierarchical(all_reduce(), Cluster::uniform(8, 4, 8, 50e9), {.segments = 16}, plan_weighted_direct);
  ASSERT_TRUE(plan);
  const Between found = between_servers(*plan);
  EXPECT_EQ(found.messages, 2U * 8 * 7 * 4 * 16);
  EXPECT_NEAR(found.largest_share, 1.0 / (8 * 4 * 16), 1e-6);
}

TEST(RotatedDirect, MessagesBetweenServersStayWhole) {
  for (const std::uint32_t q : {8U, 12U, 17U}) {
    const Result<Plan> plan = plan_rotated_direct(all_reduce(), Cluster::uniform(q, 8, 8, 50e9), {.segments = 16});
    ASSERT_TRUE(plan);
    const Between found = between_servers(*plan);
    EXPECT_EQ(found.messages, 2U * q * (q - 1) * 16) << q;
    EXPECT_NEAR(found.largest_share, 1.0 / (q * 16), 1e-6) << q;
  }
}

TEST(RotatedDirect, SaysWhatItNeeds) {
  for (const Cluster& cluster : {Cluster::uniform(7, 8, 8, 50e9), Cluster::uniform(8, 1, 8, 50e9)}) {
    const Result<Plan> plan = plan_rotated_direct(all_reduce(), cluster, {});
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().fault, Fault::kMisuse);
    EXPECT_NE(plan.error().what.find("at least as many servers"), std::string::npos);
  }
}

TEST(RotatedDirect, IsPreferredWhereShardsWouldBeSmall) {
  const auto rotated_is_cheaper = [](std::uint32_t servers, std::uint64_t bytes) {
    const Cluster cluster = Cluster::uniform(servers, 8, 8, 50e9);
    const Request request{.bytes = bytes};
    const Result<Plan> shards = hierarchical(request, cluster, {}, plan_weighted_direct);
    const Result<Plan> whole = plan_rotated_direct(request, cluster, {});
    EXPECT_TRUE(shards && whole);
    return whole->predicted_s < shards->predicted_s;
  };
  EXPECT_TRUE(rotated_is_cheaper(128, 256 << 20));
  EXPECT_FALSE(rotated_is_cheaper(8, 1 << 30));
}

TEST(RotatedDirect, AThousandRanksAreProven) {
  const Cluster cluster = with_losses(kSanitized ? 16 : 128, 8, Fabric::kRouted, 4);
  const Result<Plan> plan = plan_rotated_direct(all_reduce(), cluster, {});
  expect_proven(plan, "1,024 ranks");
}

}  // namespace
}  // namespace r2ccl
