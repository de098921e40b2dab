#include <gtest/gtest.h>

#include "sim/cluster/ports/ports.h"
#include "sim/cluster/routes.h"
#include "sim/cluster/timing.h"
#include "testing/test_schedules.h"

namespace r2ccl::sim {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(NicRates, ServiceFollowsTheRate) {
  const Cluster cluster = Cluster::uniform(1, 1, 2, 100);
  const std::vector<NicFault> faults{
      {.at_s = 4, .nic = 1, .rate = 0}, {.at_s = 2, .nic = 1, .rate = 50}, {.at_s = 6, .nic = 1, .rate = 100}};
  const NicRates rates(cluster, faults);
  EXPECT_EQ(rates.serve(0, 1, 1000).end_s, 11);
  EXPECT_EQ(rates.serve(1, 0, 200).end_s, 2);
  EXPECT_EQ(rates.serve(1, 1, 150).end_s, 3) << "slowed half way";
  EXPECT_EQ(rates.serve(1, 1, 1000).lost_at_s, 4);
  EXPECT_EQ(rates.serve(1, 7, 100).end_s, 8) << "back again";
  EXPECT_EQ(rates.at(1, 5), 0);
}

TEST(Routes, SharesHoldOverManySmallMessages) {
  Cluster cluster = Cluster::uniform(2, 1, 4, 1e9);
  PlanHeader header;
  header.shares = {.servers = 2, .rails = 4, .share = std::vector<std::uint16_t>(16, 1024)};
  const std::vector<std::uint16_t> share{2048, 1024, 1000, 24};
  std::copy(share.begin(), share.end(), header.shares.share.begin() + 4);
  Routes routes(cluster, header);
  std::vector<double> sum(4, 0);
  for (int i = 0; i < 4096; ++i) {
    double total = 0;
    for (const Splitter::Part& part : routes.rails(0, 1, 10000)) {
      EXPECT_GE(part.bytes, kSmallestPart);
      sum[part.nic] += part.bytes;
      total += part.bytes;
    }
    EXPECT_NEAR(total, 10000, 1e-6);
  }
  for (std::uint32_t k = 0; k < 4; ++k) EXPECT_NEAR(sum[k] / 1e4, share[k], 2);
}

TEST(Routes, ANicBelongsToTheGpuNextToIt) {
  PlanHeader header;
  const Cluster more_nics = Cluster::uniform(1, 2, 4, 1);
  const Routes a(more_nics, header);
  EXPECT_TRUE(a.owns(0, 1));
  EXPECT_FALSE(a.owns(0, 2));
  EXPECT_EQ(a.owner(3), 1U);
  const Cluster more_gpus = Cluster::uniform(1, 8, 4, 1);
  const Routes b(more_gpus, header);
  EXPECT_TRUE(b.owns(5, 2));
  EXPECT_FALSE(b.owns(5, 3));
  EXPECT_EQ(b.owner(2), 4U);
}

TEST(Routes, AGpuUsesOthersNicsOnlyForWhatItsOwnLack) {
  PlanHeader header;
  Cluster cluster = Cluster::uniform(1, 4, 4, 1);
  const auto row = [](const Splitter& splitter, std::size_t rank) {
    return std::vector<double>(splitter.fractions(rank), splitter.fractions(rank) + 4);
  };
  EXPECT_EQ(row(Routes(cluster, header).by_gpu({7, 7, 7, 7}), 2), (std::vector<double>{0, 0, 1, 0}));
  EXPECT_EQ(row(Routes(cluster, header).by_gpu({0, 7, 0, 0}), 1), (std::vector<double>{0.25, 0.25, 0.25, 0.25}));
  ASSERT_TRUE(lose_nic(cluster, 0, 1));
  const Splitter degraded = Routes(cluster, header).by_gpu({6, 6, 6, 6});
  EXPECT_EQ(row(degraded, 0), (std::vector<double>{1, 0, 0, 0}));
  for (const std::uint32_t nic : {0, 2, 3}) EXPECT_NEAR(row(degraded, 1)[nic], 1.0 / 3, 1e-12);
}

double time_of(const Schedule& schedule, const Cluster& cluster, const TimingOptions& options = {}) {
  const Result<Timing> timing = time_schedule(schedule, cluster, kGiB, options);
  EXPECT_TRUE(timing.has_value()) << (timing ? "" : timing.error().what);
  return timing ? timing->time_s : 0;
}

TEST(Faults, ANicLostOnTheWayCostsLessThanOneLostBefore) {
  for (const bool pinned : {false, true}) {
    for (const Fabric fabric : {Fabric::kRouted, Fabric::kRails}) {
      Cluster cluster = Cluster::uniform(8, 1, 8, 50e9);
      cluster.fabric = fabric;
      const Schedule schedule = pinned ? ring_schedule(8, 1, 8, true) : direct_schedule(std::vector<double>(8, 1.0));
      const double healthy_s = time_of(schedule, cluster);
      Cluster degraded = cluster;
      ASSERT_TRUE(lose_nic(degraded, 2, 3));
      // A pinned lane can not run without its NIC; the NIC next to it would carry twice as much.
      const double degraded_s = pinned ? 2 * healthy_s : time_of(schedule, degraded);
      const TimingOptions options{.faults = {{.at_s = 0.4 * healthy_s, .server = 2, .nic = 3}}, .repair_s = 1e-3};
      const double time_s = time_of(schedule, cluster, options);
      EXPECT_GT(time_s, 1.005 * healthy_s) << pinned;
      EXPECT_LT(time_s, degraded_s + options.repair_s) << pinned;
    }
  }
}

TEST(Faults, AnEarlierLossCostsMore) {
  const Cluster cluster = Cluster::uniform(4, 1, 2, 50e9);
  const Schedule schedule = ring_schedule(4, 1);
  const double healthy_s = time_of(schedule, cluster);
  double last_s = 1;
  for (const double at : {0.1, 0.3, 0.5, 0.7, 0.9}) {
    const double time_s =
        time_of(schedule, cluster, {.faults = {{.at_s = at * healthy_s, .server = 1, .nic = 0}}, .repair_s = 0});
    EXPECT_LT(time_s, last_s);
    EXPECT_GT(time_s, healthy_s);
    last_s = time_s;
  }
  const double behind_s = time_of(schedule, cluster, {.faults = {{.at_s = 2 * healthy_s, .server = 1, .nic = 0}}});
  EXPECT_NEAR(behind_s / healthy_s, 1, 0.01) << "a fault after the end changes nothing";
}

TEST(Faults, TheUnitUnderWayWaitsForTheRepair) {
  Cluster cluster = Cluster::uniform(2, 1, 2, 50e9);
  cluster.alpha_s = cluster.port_cost_s = 0;
  const Schedule schedule = ring_schedule(2, 1, 2, true);
  const double healthy_s = time_of(schedule, cluster);
  const TimingOptions options{.faults = {{.at_s = healthy_s / 2, .server = 1, .nic = 0}}, .repair_s = 0.5};
  EXPECT_NEAR(time_of(schedule, cluster, options), healthy_s / 2 + 0.5, healthy_s);
}

TEST(Faults, LosingTheLastWayIsRefused) {
  const Cluster cluster = Cluster::uniform(2, 1, 1, 50e9);
  const Result<Timing> timing = time_schedule(ring_schedule(2, 1), cluster, kGiB, {.faults = {{.at_s = 1e-3}}});
  ASSERT_FALSE(timing);
  EXPECT_EQ(timing.error().fault, Fault::kMisuse);
}

TEST(Faults, ASlowedNicStretchesWhatItCarries) {
  Cluster cluster = Cluster::uniform(2, 1, 1, 50e9);
  cluster.alpha_s = cluster.port_cost_s = 0;
  const Schedule schedule = ring_schedule(2, 1);
  const double healthy_s = time_of(schedule, cluster);
  const double time_s =
      time_of(schedule, cluster, {.faults = {{.at_s = healthy_s / 2, .server = 0, .nic = 0, .rate = 25e9}}});
  EXPECT_NEAR(time_s / healthy_s, 1.5, 0.01);
}

}  // namespace
}  // namespace r2ccl::sim
