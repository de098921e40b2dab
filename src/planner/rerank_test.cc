#include "planner/rerank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace r2ccl {
namespace {

Cluster rails(std::uint32_t servers, std::uint32_t nics) {
  Cluster cluster = Cluster::uniform(servers, 1, nics, 50e9);
  cluster.fabric = Fabric::kRails;
  return cluster;
}

void damage(Cluster& cluster, std::mt19937& random, std::uint32_t faults) {
  for (std::uint32_t i = 0; i < faults; ++i) {
    const auto server = static_cast<std::uint32_t>(random() % cluster.servers);
    const auto nic = static_cast<std::uint32_t>(random() % cluster.nics);
    if (random() % 4 == 0) {
      EXPECT_TRUE(slow_nic(cluster, server, nic, 0.5));
    } else {
      (void)lose_nic(cluster, server, nic);  // refused for the last one of a server
    }
  }
}

double best_of_all(const Cluster& cluster) {
  std::vector<std::uint32_t> order(cluster.servers);
  std::iota(order.begin(), order.end(), 0U);
  double best = 0;
  do {
    best = std::max(best, ring_capacity(cluster, order));
  } while (std::next_permutation(order.begin() + 1, order.end()));
  return best;
}

bool is_permutation_of(std::vector<std::uint32_t> order, std::uint32_t servers) {
  std::ranges::sort(order);
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    if (order[i] != i) return false;
  }
  return order.size() == servers;
}

TEST(Rerank, KeepsTheOrderOfARoutedFabric) {
  Cluster cluster = Cluster::uniform(5, 1, 2, 50e9);
  ASSERT_TRUE(lose_nic(cluster, 1, 0));
  ASSERT_TRUE(lose_nic(cluster, 2, 1));
  EXPECT_EQ(rerank(cluster), (std::vector<std::uint32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(ring_capacity(cluster, *rerank(cluster)), 50e9);
}

TEST(Rerank, PutsABridgeBetweenServersThatShareNoRail) {
  Cluster cluster = rails(4, 2);
  ASSERT_TRUE(lose_nic(cluster, 0, 0));
  ASSERT_TRUE(lose_nic(cluster, 1, 1));
  const auto order = rerank(cluster);
  ASSERT_TRUE(order) << order.error().what;
  EXPECT_EQ(ring_capacity(cluster, *order), 50e9);
}

TEST(Rerank, IsAsWideAsTheBestOfAllOrders) {
  std::mt19937 random(5);
  std::uint32_t refused = 0;
  for (std::uint32_t i = 0; i < 150; ++i) {
    Cluster cluster = rails(2 + i % 7, 2 + i % 3);
    damage(cluster, random, 1 + i % 12);
    const double best = best_of_all(cluster);
    const auto order = rerank(cluster);
    ASSERT_EQ(order.has_value(), best > 0) << i;
    if (!order) {
      ++refused;
      EXPECT_EQ(order.error().fault, Fault::kMisuse);
      continue;
    }
    EXPECT_TRUE(is_permutation_of(*order, cluster.servers));
    EXPECT_EQ(ring_capacity(cluster, *order), best) << i;
  }
  EXPECT_GT(refused, 3U);
  EXPECT_LT(refused, 75U);
}

// 64 servers of which each third lost one rail and each other third another, with bridges enough: the best is known.
TEST(Rerank, FindsTheBridgesAmongManyServers) {
  for (const std::uint32_t q : {12U, 33U, 64U, 128U}) {
    Cluster cluster = rails(q, 8);
    for (std::uint32_t server = 0; server < q; ++server) {
      if (server % 4 == 3) continue;
      ASSERT_TRUE(lose_nic(cluster, server, server % 4));
    }
    const auto order = rerank(cluster);
    ASSERT_TRUE(order) << order.error().what;
    EXPECT_TRUE(is_permutation_of(*order, q));
    EXPECT_EQ(ring_capacity(cluster, *order), 350e9) << q;
  }
}

// The ring can not be wider than the second-widest edge of any server.
TEST(Rerank, MeetsTheBoundForRandomLossesOnManyServers) {
  std::mt19937 random(6);
  for (std::uint32_t i = 0; i < 20; ++i) {
    Cluster cluster = rails(128, 8);
    damage(cluster, random, 10 + 10 * i);
    double bound = 400e9;
    for (std::uint32_t u = 0; u < 128; ++u) {
      std::vector<double> edges;
      for (std::uint32_t v = 0; v < 128; ++v) {
        if (v != u) edges.push_back(edge_capacity(cluster, u, v));
      }
      std::ranges::sort(edges, std::greater<>());
      bound = std::min(bound, edges[1]);
    }
    const auto order = rerank(cluster);
    ASSERT_TRUE(order) << order.error().what;
    EXPECT_TRUE(is_permutation_of(*order, 128));
    EXPECT_GE(ring_capacity(cluster, *order), bound * 0.999) << i;
  }
}

TEST(Rerank, SaysWhenAThinEdgeCanNotBeAvoided) {
  Cluster cluster = rails(3, 2);
  ASSERT_TRUE(lose_nic(cluster, 0, 0));
  ASSERT_TRUE(lose_nic(cluster, 1, 1));
  const auto order = rerank(cluster);
  ASSERT_FALSE(order);
  EXPECT_NE(order.error().what.find("no rail in common"), std::string::npos);
}

}  // namespace
}  // namespace r2ccl
