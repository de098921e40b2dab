#include <gtest/gtest.h>

#include <random>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/kary_trees.h"
#include "planner/ownership.h"
#include "schedule/check/check.h"

namespace r2ccl {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{256} << 20;

Cluster rails(std::uint32_t servers, std::uint32_t nics) {
  Cluster cluster = Cluster::uniform(servers, 1, nics, 50e9);
  cluster.fabric = Fabric::kRails;
  return cluster;
}

Result<Plan> planned(const Cluster& cluster, std::optional<std::uint32_t> segments = {}) {
  Tuning tuning;
  tuning.segments = segments;
  return plan_trees({.collective = Collective::kAllReduce, .bytes = kBytes}, cluster, tuning);
}

std::string verdict(const Plan& plan) {
  const Result<CheckReport> report = check(plan.schedule());
  return report ? "" : report.error().what;
}

TEST(Trees, PassTheCheckerUnderRandomDamageOfRails) {
  std::mt19937 random(7);
  std::uint32_t checked = 0;
  for (std::uint32_t i = 0; i < 60; ++i) {
    const std::uint32_t servers = 3 + random() % 10;
    const std::uint32_t nics = 2 + random() % 7;
    Cluster cluster = rails(servers, nics);
    const std::uint32_t hits = 1 + random() % (servers * nics * 2 / 3);
    for (std::uint32_t hit = 0; hit < hits; ++hit) {
      const std::uint32_t server = random() % servers;
      const std::uint32_t nic = random() % nics;
      if (random() % 2 == 0) {
        if (!lose_nic(cluster, server, nic)) continue;  // a server keeps its last one
      } else if (cluster.nic(server, nic) > 0) {
        ASSERT_TRUE(slow_nic(cluster, server, nic, 0.1 * (1 + random() % 9)));
      }
    }
    const Result<Plan> plan = planned(cluster, 1 + random() % 9);
    if (!plan) {  // rails that do not join all servers
      EXPECT_EQ(plan.error().fault, Fault::kMisuse);
      continue;
    }
    ASSERT_EQ(verdict(*plan), "") << "case " << i;
    ++checked;
  }
  EXPECT_GT(checked, 50U);
}

// Servers 0 and 1 share no rail: somebody relays for them.
TEST(Trees, RelayBetweenServersThatShareNoRail) {
  Cluster cluster = rails(4, 2);
  ASSERT_TRUE(lose_nic(cluster, 0, 0));
  ASSERT_TRUE(lose_nic(cluster, 1, 1));
  const Result<Plan> plan = planned(cluster);
  ASSERT_TRUE(plan) << plan.error().what;
  EXPECT_EQ(verdict(*plan), "");
  const Schedule schedule = plan->schedule();
  for (const Step& step : schedule.lanes[0][0].steps) EXPECT_NE(step.to, fixed(1));
  for (const Step& step : schedule.lanes[1][0].steps) EXPECT_NE(step.to, fixed(0));
}

TEST(Trees, HealthyRailsGiveStarsAndFewSteps) {
  const Result<Plan> plan = planned(rails(6, 4));
  ASSERT_TRUE(plan);
  EXPECT_EQ(verdict(*plan), "");
  const Schedule schedule = plan->schedule();
  for (const std::vector<Lane>& lanes : schedule.lanes) {
    ASSERT_EQ(lanes.size(), 2U);
    for (const Lane& lane : lanes) EXPECT_LE(lane.steps.size(), 2U * schedule.header.layout.pieces() * 5);
  }
}

TEST(Trees, PassTheCheckerOnARoutedFabric) {
  for (const std::uint32_t servers : {2U, 3U, 4U, 5U, 7U, 9U, 12U, 24U}) {
    for (const std::uint32_t lost : {0U, 3U}) {
      Cluster cluster = Cluster::uniform(servers, 1, 8, 50e9);
      for (std::uint32_t nic = 0; nic < lost; ++nic) ASSERT_TRUE(lose_nic(cluster, 1, nic));
      for (const std::uint32_t segments : {1U, 2U, 5U}) {
        const Result<Plan> plan = planned(cluster, segments);
        ASSERT_TRUE(plan) << plan.error().what;
        ASSERT_EQ(verdict(*plan), "") << servers << " servers, " << segments << " segments";
      }
    }
  }
}

TEST(KaryTrees, DegreesFollowTheBandwidths) {
  std::vector<double> bandwidth(20, 8);
  bandwidth[3] = 4;
  bandwidth[7] = 6;
  const Ownership owned = ownership(bandwidth);
  const std::vector<TreeShape> trees = kary_trees(owned.rho, 4, 128);
  std::vector<double> load(bandwidth.size(), 0);
  double weight = 0;
  for (const TreeShape& tree : trees) {
    weight += tree.weight;
    std::vector<std::uint32_t> children(bandwidth.size(), 0);
    for (std::uint32_t server = 0; server < bandwidth.size(); ++server) {
      if (server == tree.root) continue;
      ++children[tree.parent[server]];
      load[server] += tree.weight;
      load[tree.parent[server]] += tree.weight;
    }
    for (std::uint32_t server = 0; server < bandwidth.size(); ++server) {
      EXPECT_LE(children[server], server == tree.root ? 5U : 4U);
    }
  }
  EXPECT_NEAR(weight, 1, 1e-9);
  for (std::uint32_t server = 0; server < bandwidth.size(); ++server) {
    EXPECT_LE(load[server] / bandwidth[server], owned.bound * 1.02) << server;
  }
}

TEST(Trees, RefuseSeveralGpusAndOneServer) {
  const Result<Plan> several = planned(Cluster::uniform(4, 2, 8, 50e9));
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().what, "trees plans for one GPU per server; there are 2");
  EXPECT_FALSE(planned(Cluster::uniform(1, 1, 8, 50e9)));
}

}  // namespace
}  // namespace r2ccl
