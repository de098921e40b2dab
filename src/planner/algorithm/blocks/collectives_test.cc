// The collectives other than all_reduce: proven under failures, and moving no more than they must.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/algorithm/algorithm.h"
#include "schedule/check/check.h"
#include "schedule/cursor.h"

namespace r2ccl {
namespace {

struct Row {
  Collective collective;
  PlanFunction plan;
  bool rooted;
};
constexpr Row kRows[] = {
    {Collective::kReduceScatter, plan_reduce_scatter, false},
    {Collective::kAllGather, plan_all_gather, false},
    {Collective::kAllToAll, plan_all_to_all, false},
    {Collective::kGather, plan_gather, true},
    {Collective::kScatter, plan_scatter, true},
    {Collective::kBroadcast, plan_broadcast, true},
    {Collective::kReduce, plan_reduce, true},
};

// At most one NIC of a server is lost or slowed, so every two servers keep a rail.
Cluster damaged(std::uint32_t servers, std::uint32_t gpus, Fabric fabric, std::mt19937& random) {
  Cluster cluster = Cluster::uniform(servers, gpus, 4, 50e9);
  cluster.fabric = fabric;
  for (std::uint32_t server = 0; server < servers; ++server) {
    const std::uint32_t what = random() % 3;
    const std::uint32_t nic = random() % 4;
    if (what == 1) {
      EXPECT_TRUE(lose_nic(cluster, server, nic));
    }
    if (what == 2) {
      EXPECT_TRUE(slow_nic(cluster, server, nic, 0.25));
    }
  }
  return cluster;
}

// Shares of the data that servers send and receive, by the steps of the schedule.
struct Volume {
  std::vector<double> out;
  std::vector<double> into;
};
Volume volume_of(const Schedule& schedule) {
  const PlanHeader& header = schedule.header;
  const std::uint32_t servers = header.ranks / header.ranks_per_server;
  Volume volume{std::vector<double>(servers), std::vector<double>(servers)};
  for (std::uint32_t rank = 0; rank < header.ranks; ++rank) {
    for (const Lane& lane : schedule.lanes[rank]) {
      for (LaneCursor cursor(lane); !cursor.done(); cursor.next()) {
        if (!sends(cursor.step().kind)) continue;
        const std::uint32_t from = rank / header.ranks_per_server;
        const auto to = static_cast<std::uint32_t>(cursor.to()) / header.ranks_per_server;
        if (from == to) continue;
        const double share = header.layout.share(static_cast<std::uint32_t>(cursor.span()));
        volume.out[from] += share;
        volume.into[to] += share;
      }
    }
  }
  return volume;
}

TEST(CollectivesTest, EveryPlanIsProvenForEveryRootUnderFailures) {
  std::mt19937 random(11);
  for (const Row& row : kRows) {
    for (const std::uint32_t gpus : {1U, 2U, 3U, 4U, 8U}) {
      for (std::uint32_t servers = 1; servers * gpus <= 12 || servers <= 2; ++servers) {
        if (servers * gpus < 2) continue;
        for (std::uint32_t root = 0; root < (row.rooted ? servers * gpus : 1); ++root) {
          for (const std::uint64_t bytes : {16ULL, 3ULL << 20, 1ULL << 30}) {
            for (const Fabric fabric : {Fabric::kRouted, Fabric::kRails}) {
              const Cluster cluster = damaged(servers, gpus, fabric, random);
              const Result<Plan> plan = row.plan({row.collective, bytes, root}, cluster, {});
              ASSERT_TRUE(plan) << plan.error().what;
              EXPECT_GT(plan->predicted_s, 0);
              const Result<CheckReport> report = check(plan->schedule());
              ASSERT_TRUE(report) << to_text(row.collective) << ", " << servers << " x " << gpus << ", root " << root
                                  << ", " << bytes << " bytes: " << report.error().what;
            }
          }
        }
      }
    }
  }
}

TEST(CollectivesTest, AnyNumberOfSegmentsIsProven) {
  for (const Row& row : kRows) {
    for (const std::uint32_t segments : {1U, 2U, 5U, 17U}) {
      for (const std::uint32_t gpus : {1U, 3U}) {
        const Result<Plan> plan =
            row.plan({row.collective, 1 << 28, 1}, Cluster::uniform(4, gpus, 4, 50e9), {.segments = segments});
        ASSERT_TRUE(plan);
        EXPECT_EQ(plan->header.layout.segments, segments);
        const Result<CheckReport> report = check(plan->schedule(), {.full = true});
        EXPECT_TRUE(report) << to_text(row.collective) << ", " << segments << " segments: " << report.error().what;
      }
    }
  }
}

TEST(CollectivesTest, ServersSendAndReceiveWhatTheyMustAndNoMore) {
  for (const std::uint32_t gpus : {1U, 2U, 8U}) {
    for (const std::uint32_t servers : {2U, 3U, 7U}) {
      const Cluster cluster = Cluster::uniform(servers, gpus, 8, 50e9);
      const double others = 1.0 * (servers - 1) / servers;
      for (const Row& row : {kRows[0], kRows[1], kRows[2]}) {
        const Volume volume = volume_of(row.plan({row.collective, 1 << 26, 0}, cluster, {})->schedule());
        // all_to_all: every GPU has its own blocks for every GPU elsewhere.
        const double must = row.collective == Collective::kAllToAll ? gpus * others : others;
        for (std::uint32_t server = 0; server < servers; ++server) {
          EXPECT_NEAR(volume.out[server], must, 1e-9) << to_text(row.collective);
          EXPECT_NEAR(volume.into[server], must, 1e-9) << to_text(row.collective);
        }
      }
      const std::uint32_t root = servers * gpus - 1;
      const Volume gathered = volume_of(plan_gather({Collective::kGather, 1 << 26, root}, cluster, {})->schedule());
      EXPECT_NEAR(gathered.into[servers - 1], others, 1e-9);
      EXPECT_NEAR(gathered.out[0], 1.0 / servers, 1e-9);
      const Volume scattered = volume_of(plan_scatter({Collective::kScatter, 1 << 26, root}, cluster, {})->schedule());
      EXPECT_NEAR(scattered.out[servers - 1], others, 1e-9);
      EXPECT_NEAR(scattered.into[0], 1.0 / servers, 1e-9);
    }
  }
}

TEST(CollectivesTest, LargeBroadcastAndReduceMoveTheDataOncePerServer) {
  for (const std::uint32_t gpus : {1U, 2U, 8U}) {
    for (const std::uint32_t servers : {2U, 3U, 7U}) {
      const Cluster cluster = Cluster::uniform(servers, gpus, 8, 50e9);
      const std::uint32_t root = gpus;  // in server 1
      const Volume down = volume_of(plan_broadcast({Collective::kBroadcast, 1 << 30, root}, cluster, {})->schedule());
      const Volume up = volume_of(plan_reduce({Collective::kReduce, 1 << 30, root}, cluster, {})->schedule());
      for (std::uint32_t server = 0; server < servers; ++server) {
        const bool home = server == 1;
        const double relayed = 1.0 * (servers - 2) / (servers - 1);
        EXPECT_NEAR(down.out[server], home ? 1 : relayed, 1e-9);
        EXPECT_NEAR(down.into[server], home ? 0 : 1, 1e-9);
        EXPECT_NEAR(up.into[server], home ? 1 : relayed, 1e-9);
        EXPECT_NEAR(up.out[server], home ? 0 : 1, 1e-9);
      }
    }
  }
}

TEST(CollectivesTest, SmallBroadcastAndReduceTakeATree) {
  const Cluster cluster = Cluster::uniform(16, 8, 8, 50e9);
  for (const Row& row : {kRows[5], kRows[6]}) {
    const Result<Plan> tiny = row.plan({row.collective, 1 << 10, 5}, cluster, {});
    ASSERT_TRUE(tiny);
    EXPECT_EQ(tiny->header.layout.pieces(), 1U);
    EXPECT_GT(row.plan({row.collective, 1 << 30, 5}, cluster, {})->header.layout.pieces(), 1U);
  }
}

TEST(CollectivesTest, RailSharesOfAPairUseOnlyRailsThatWorkAtBothEnds) {
  Cluster cluster = Cluster::uniform(4, 1, 4, 50e9);
  cluster.fabric = Fabric::kRails;
  ASSERT_TRUE(lose_nic(cluster, 0, 1));
  ASSERT_TRUE(lose_nic(cluster, 2, 3));
  const Result<Plan> plan = plan_all_gather({Collective::kAllGather, 1 << 26, 0}, cluster, {});
  ASSERT_TRUE(plan);
  const RailShares& shares = plan->header.shares;
  EXPECT_EQ(shares.of(0, 2)[1], 0);
  EXPECT_EQ(shares.of(0, 2)[3], 0);
  EXPECT_EQ(shares.of(0, 2)[0] + shares.of(0, 2)[2], kShareUnit);
  // Rail 3 of server 0 is of no use towards server 2, so the others use it more.
  EXPECT_GT(shares.of(0, 1)[3], 1.05 * shares.of(0, 1)[0]);
}

TEST(CollectivesTest, ServersWithoutACommonRailAreRefusedOrGoneAround) {
  Cluster cluster = Cluster::uniform(3, 2, 2, 50e9);
  cluster.fabric = Fabric::kRails;
  ASSERT_TRUE(lose_nic(cluster, 0, 0));
  ASSERT_TRUE(lose_nic(cluster, 1, 1));
  const Result<Plan> gathered = plan_all_gather({Collective::kAllGather, 1 << 20, 0}, cluster, {});
  ASSERT_FALSE(gathered);
  EXPECT_EQ(gathered.error().what, "servers 0 and 1 have no rail in common, and this plan does not relay");
  for (const Row& row : {kRows[5], kRows[6]}) {
    const Result<Plan> plan = row.plan({row.collective, 1 << 26, 0}, cluster, {});
    ASSERT_TRUE(plan) << plan.error().what;
    EXPECT_TRUE(check(plan->schedule()));
  }
  Cluster split = Cluster::uniform(2, 1, 2, 50e9);
  split.fabric = Fabric::kRails;
  ASSERT_TRUE(lose_nic(split, 0, 0));
  ASSERT_TRUE(lose_nic(split, 1, 1));
  EXPECT_FALSE(plan_broadcast({Collective::kBroadcast, 1 << 20, 0}, split, {}));
}

}  // namespace
}  // namespace r2ccl
