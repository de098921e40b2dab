#include "sim/cluster/timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "planner/bounds.h"
#include "testing/test_schedules.h"

namespace r2ccl::sim {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

double bound_s(const Cluster& cluster, std::uint64_t bytes) {
  const std::vector<double> rates = server_rates(cluster);
  return allreduce_bound<double>(rates) * static_cast<double>(bytes);
}

Schedule weighted_direct(const Cluster& cluster, const DirectOptions& options = {}) {
  const std::vector<double> rates = server_rates(cluster);
  return direct_schedule(owner_shares(rates, allreduce_bound<double>(rates)), options);
}

// schedule-notes 2.2
double kappa(const Cluster& cluster) {
  const std::vector<double> rates = server_rates(cluster);
  const double bound = allreduce_bound<double>(rates);
  const std::vector<double> shares = owner_shares(rates, bound);
  double worst = 0;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    worst = std::max(worst, (1 - static_cast<double>(rates.size()) * shares[i]) / (rates[i] * bound));
  }
  return worst;
}

double time_of(const Schedule& schedule, const Cluster& cluster, std::uint64_t bytes,
               const TimingOptions& options = {}) {
  const Result<Timing> timing = time_schedule(schedule, cluster, bytes, options);
  EXPECT_TRUE(timing.has_value()) << (timing ? "" : timing.error().what);
  return timing ? timing->time_s : 0;
}

Cluster without_latency(std::uint32_t servers, std::uint32_t gpus, std::uint32_t nics) {
  Cluster cluster = Cluster::uniform(servers, gpus, nics, 50e9);
  cluster.alpha_s = cluster.intra_alpha_s = cluster.port_cost_s = 0;
  return cluster;
}

// 1 .. q/3 + 1 NICs lost or slowed to 10 .. 90 %.
Cluster random_cluster(std::mt19937& rng, std::uint32_t servers) {
  Cluster cluster = Cluster::uniform(servers, 1, rng() % 2 == 0 ? 4 : 8, rng() % 2 == 0 ? 12.5e9 : 50e9);
  for (std::uint32_t left = 1 + rng() % (servers / 3 + 1); left > 0; --left) {
    const std::uint32_t server = rng() % servers;
    const std::uint32_t nic = rng() % cluster.nics;
    if (rng() % 2 == 0) {
      EXPECT_TRUE(lose_nic(cluster, server, nic));
    } else {
      EXPECT_TRUE(slow_nic(cluster, server, nic, 0.1 + 0.01 * static_cast<double>(rng() % 80)));
    }
  }
  return cluster;
}

TEST(Timing, HealthyRingTakesItsClosedForm) {
  for (const std::uint32_t p : {2U, 3U, 8U, 128U}) {
    Cluster cluster = Cluster::uniform(p, 1, 8, 50e9);
    cluster.port_cost_s = 0;
    const double expected = 2.0 * (p - 1) / p * kGiB / 400e9 + 2 * (p - 1) * cluster.alpha_s;
    for (const PortModel model : {PortModel::kMultiPort, PortModel::kOnePort}) {
      EXPECT_NEAR(time_of(ring_schedule(p, 1), cluster, kGiB, {.model = model}) / expected, 1, 1e-3)
          << p << ' ' << to_text(model);
    }
    if (p <= 8) {
      EXPECT_NEAR(time_of(ring_schedule(p, 1), cluster, kGiB, {.model = PortModel::kFair}) / expected, 1, 1e-3);
    }
  }
}

TEST(Timing, RingOverADegradedServerSlowsByWhatItLost) {
  for (const std::uint32_t lost : {1U, 2U, 4U}) {
    Cluster cluster = without_latency(16, 1, 8);
    const double healthy_s = time_of(ring_schedule(16, 1), cluster, kGiB);
    for (std::uint32_t nic = 0; nic < lost; ++nic) ASSERT_TRUE(lose_nic(cluster, 5, nic));
    EXPECT_NEAR(time_of(ring_schedule(16, 1), cluster, kGiB) / healthy_s, 8.0 / (8 - lost), 2e-3);
  }
}

TEST(Timing, LanesPinnedToOneBackupNicTakeTwiceAsLong) {
  for (const Fabric fabric : {Fabric::kRouted, Fabric::kRails}) {
    Cluster cluster = without_latency(8, 1, 8);
    cluster.fabric = fabric;
    Schedule schedule = ring_schedule(8, 1, 8, true);
    const double healthy_s = time_of(schedule, cluster, kGiB);
    ASSERT_TRUE(lose_nic(cluster, 3, 6));
    EXPECT_EQ(time_schedule(schedule, cluster, kGiB).error().fault, Fault::kMisuse) << "rail 6 is lost and not mapped";
    for (std::uint32_t server = 0; server < 8; ++server) {
      for (std::uint8_t rail = 0; rail < 8; ++rail)
        schedule.header.nic_of_rail.push_back(server == 3 && rail == 6 ? 7 : rail);
    }
    EXPECT_NEAR(time_of(schedule, cluster, kGiB) / healthy_s, 2, 0.02);
    EXPECT_NEAR(time_of(schedule, cluster, kGiB, {.model = PortModel::kFair}) / healthy_s, 2, 0.02);
  }
}

TEST(Timing, WeightedDirectTakesItsFormula) {
  std::mt19937 rng(7);
  for (int i = 0; i < 40; ++i) {
    const std::uint32_t q = i == 0 ? 128 : 4 + rng() % 40;
    const Cluster cluster = random_cluster(rng, q);
    const std::uint32_t segments = rng() % 2 == 0 ? 32 : 64;
    const double least_s = bound_s(cluster, kGiB);
    const double time_s = time_of(weighted_direct(cluster, {.segments = segments}), cluster, kGiB);
    const double low = 1 + kappa(cluster) / segments + 2 * cluster.alpha_s / least_s;
    EXPECT_GE(time_s, least_s);
    EXPECT_LE(time_s / least_s, low + kappa(cluster) / segments + 0.015) << "case " << i << ", q = " << q;
    EXPECT_GE(time_s / least_s, low - 0.015) << "case " << i << ", q = " << q;
  }
}

TEST(Timing, MultiPortAgreesWithFairSharing) {
  std::mt19937 rng(11);
  for (int i = 0; i < 40; ++i) {
    const Cluster cluster = random_cluster(rng, 4 + rng() % 9);
    const Schedule schedule = weighted_direct(cluster, {.segments = 32});
    const double least_s = bound_s(cluster, kGiB / 4);
    const double ports_s = time_of(schedule, cluster, kGiB / 4);
    const double fair_s = time_of(schedule, cluster, kGiB / 4, {.model = PortModel::kFair});
    EXPECT_NEAR(ports_s / fair_s, 1, 0.03) << "case " << i;
    EXPECT_GE(ports_s, least_s);
    EXPECT_GE(fair_s, least_s);
  }
}

TEST(Timing, OnePortRingRunsAtThePaceOfItsStraggler) {
  for (const std::uint32_t left : {7U, 6U, 4U, 3U}) {
    Cluster cluster = without_latency(8, 1, 8);
    const double healthy_s = time_of(ring_schedule(8, 1), cluster, kGiB, {.model = PortModel::kOnePort});
    for (std::uint32_t nic = left; nic < 8; ++nic) ASSERT_TRUE(lose_nic(cluster, 2, nic));
    const double slowed_s = time_of(ring_schedule(8, 1), cluster, kGiB, {.model = PortModel::kOnePort});
    EXPECT_NEAR(slowed_s / healthy_s, 8.0 / left, 8.0 / left * 0.01);
  }
}

TEST(Timing, OnePortHoldsAQuickServerThatTalksToASlowOne) {
  // Server 0 sends to the slow server 1 and then to 2: the second transfer waits for the first.
  Cluster cluster = without_latency(3, 1, 1);
  ASSERT_TRUE(slow_nic(cluster, 1, 0, 0.25));
  Schedule schedule;
  schedule.header = test_header(3, 1, Layout::equal(1));
  schedule.lanes = {{lane_of({send_step(fixed(1)), send_step(fixed(2))})},
                    {lane_of({receive_step(fixed(0))})},
                    {lane_of({receive_step(fixed(0))})}};
  EXPECT_NEAR(time_of(schedule, cluster, 50'000'000, {.model = PortModel::kOnePort}), 5e-3, 1e-9);
  EXPECT_NEAR(time_of(schedule, cluster, 50'000'000), 4e-3, 1e-9);
}

TEST(Timing, TheSlowerEndDecidesWhenAMessageIsThere) {
  for (const std::uint32_t slow : {0U, 1U}) {
    Cluster cluster = without_latency(2, 1, 1);
    cluster.alpha_s = 1e-3;
    ASSERT_TRUE(slow_nic(cluster, slow, 0, 0.1));
    for (const std::uint64_t bytes : {100'000U, 50'000'000U}) {
      for (const std::int32_t rail : {kAnyRail, 0}) {
        Schedule schedule;
        schedule.header = test_header(2, 1, Layout::equal(1));
        schedule.lanes = {{lane_of({send_step(fixed(1))}, rail)}, {lane_of({receive_step(fixed(0))})}};
        for (const PortModel model : {PortModel::kMultiPort, PortModel::kFair, PortModel::kOnePort}) {
          EXPECT_NEAR(time_of(schedule, cluster, bytes, {.model = model}), static_cast<double>(bytes) / 5e9 + 1e-3,
                      1e-9);
        }
      }
    }
  }
}

TEST(Timing, NicBytesAreExact) {
  Cluster cluster = Cluster::uniform(8, 1, 8, 50e9);
  Schedule schedule = ring_schedule(8, 1, 8, true);
  Result<Timing> timing = time_schedule(schedule, cluster, kGiB);
  ASSERT_TRUE(timing);
  EXPECT_EQ(timing->messages, 8U * 8 * 14);
  EXPECT_EQ(timing->smallest_message, kGiB / 64);
  for (const double bytes : timing->nic_bytes_out) EXPECT_DOUBLE_EQ(bytes, 14.0 * kGiB / 64);
  for (const double bytes : timing->nic_bytes_in) EXPECT_DOUBLE_EQ(bytes, 14.0 * kGiB / 64);

  ASSERT_TRUE(lose_nic(cluster, 1, 0));
  const std::vector<double> rates = server_rates(cluster);
  const std::vector<double> shares = owner_shares(rates, allreduce_bound<double>(rates));
  for (const std::uint64_t bytes : {kGiB, kGiB / 16}) {  // poured and in units
    timing = time_schedule(direct_schedule(shares), cluster, bytes);
    ASSERT_TRUE(timing);
    for (std::uint32_t server = 0; server < 8; ++server) {
      const double expected = (1 + 6 * shares[server]) * static_cast<double>(bytes);
      for (const auto& counted : {timing->nic_bytes_out, timing->nic_bytes_in}) {
        const auto first = counted.begin() + server * 8;
        EXPECT_NEAR(std::accumulate(first, first + 8, 0.0) / expected, 1, 1e-5);
      }
    }
    EXPECT_EQ(timing->nic_bytes_out[8], 0);
    EXPECT_EQ(timing->nic_bytes_in[8], 0);
  }
}

TEST(Timing, PlannedSharesReachTheBoundOnIsolatedRails) {
  // Four servers, four rails, server 0 lost rail 1: schedule-notes 4 (a).
  Cluster cluster = Cluster::uniform(4, 1, 4, 50e9);
  cluster.fabric = Fabric::kRails;
  ASSERT_TRUE(lose_nic(cluster, 0, 1));
  Schedule schedule = direct_schedule({0.1, 0.3, 0.3, 0.3}, {.segments = 64});
  const double equal_s = time_of(schedule, cluster, kGiB);
  schedule.header.shares = {.servers = 4, .rails = 4, .share = std::vector<std::uint16_t>(64)};
  for (std::uint32_t u = 0; u < 4; ++u) {
    for (std::uint32_t v = 0; v < 4; ++v) {
      const bool lost = u == 0 || v == 0;
      const std::vector<std::uint16_t> share =
          lost ? std::vector<std::uint16_t>{1366, 0, 1365, 1365} : std::vector<std::uint16_t>{910, 1366, 910, 910};
      std::copy(share.begin(), share.end(), schedule.header.shares.share.begin() + (u * 4 + v) * 4);
    }
  }
  const double least_s = bound_s(cluster, kGiB);
  for (const PortModel model : {PortModel::kMultiPort, PortModel::kFair}) {
    const double planned_s = time_of(schedule, cluster, kGiB, {.model = model});
    EXPECT_GE(planned_s, least_s);
    EXPECT_LE(planned_s, 1.03 * least_s) << to_text(model);
  }
  EXPECT_NEAR(equal_s / least_s, 1.156 / 1.067, 0.03) << "equal striping overloads the rails that all share";
}

TEST(Timing, AChangedScheduleChangesTheTime) {
  Cluster cluster = Cluster::uniform(12, 1, 8, 50e9);
  for (std::uint32_t nic = 0; nic < 3; ++nic) ASSERT_TRUE(lose_nic(cluster, 4, nic));
  const double time_s = time_of(weighted_direct(cluster), cluster, kGiB);
  EXPECT_GT(time_of(direct_schedule(std::vector<double>(12, 1.0)), cluster, kGiB), 1.3 * time_s) << "equal owners";
  EXPECT_GT(time_of(weighted_direct(cluster, {.slots = 1}), cluster, kGiB), 1.05 * time_s) << "one slot exposes alpha";
  EXPECT_GT(time_of(weighted_direct(cluster, {.segments = 1, .lag = 1}), cluster, kGiB), 1.1 * time_s) << "no pipeline";
  Schedule waits_for_all = weighted_direct(cluster);
  for (auto& lanes : waits_for_all.lanes) lanes[0].steps[0].waits = {{.lane = 1, .step = 0, .outer_offset = -1}};
  EXPECT_GT(time_of(waits_for_all, cluster, kGiB), 1.02 * time_s) << "a barrier in every round";
}

// A rank sends twice; the second lane waits for the receipt of the first message.
Schedule two_sends(Wait wait) {
  Schedule schedule;
  schedule.header = test_header(2, 1, Layout::equal(1));
  Step second = send_step(fixed(1), fixed(0), 1);
  second.waits = {wait};
  schedule.lanes = {{lane_of({send_step(fixed(1))}), lane_of({second})},
                    {lane_of({receive_step(fixed(0)), receive_step(fixed(0), fixed(0), 1)})}};
  schedule.lanes[0][1].name = "second";
  return schedule;
}

TEST(Timing, AnAwaitedSendEndsWithItsReceipt) {
  Cluster cluster = without_latency(2, 1, 1);
  cluster.alpha_s = 1e-3;
  // 1 ms on the wire, alpha there, alpha back, and the same once more without the way back.
  EXPECT_NEAR(time_of(two_sends({.lane = 0, .step = 0}), cluster, 50'000'000), 5e-3, 1e-9);
  EXPECT_NEAR(time_of(two_sends({.lane = 0, .step = 0, .outer_offset = -1}), cluster, 50'000'000), 3e-3, 1e-9);
}

TEST(Timing, AnEmptyShareSendsNothing) {
  const Cluster cluster = without_latency(3, 1, 1);
  const Result<Timing> timing = time_schedule(direct_schedule({0, 0.5, 0.5}, {.segments = 4}), cluster, kGiB);
  ASSERT_TRUE(timing);
  EXPECT_EQ(timing->messages, 2U * 2 * 2 * 4);
}

TEST(Timing, AStuckScheduleNamesRankLaneAndStep) {
  const Result<Timing> timing = time_schedule(two_sends({.lane = 1, .step = 0}), without_latency(2, 1, 1), 1000);
  ASSERT_FALSE(timing);
  EXPECT_EQ(timing.error().fault, Fault::kBug);
  EXPECT_NE(timing.error().what.find("rank 0, lane 1 (second), step 0"), std::string::npos) << timing.error().what;
}

TEST(Timing, RefusesWhatCanNotRunOnTheCluster) {
  const auto why = [](const Schedule& schedule, const Cluster& cluster, const TimingOptions& options = {}) {
    const Result<Timing> timing = time_schedule(schedule, cluster, kGiB, options);
    EXPECT_FALSE(timing);
    EXPECT_EQ(timing.error().fault, Fault::kMisuse);
    return timing.error().what;
  };
  Cluster cluster = Cluster::uniform(4, 1, 2, 50e9);
  EXPECT_NE(why(ring_schedule(8, 1), cluster).find("8 ranks"), std::string::npos);
  EXPECT_NE(why(ring_schedule(4, 1), cluster, {.model = PortModel::kOnePort, .faults = {{}}}).find("multi-port"),
            std::string::npos);
  EXPECT_NE(why(ring_schedule(4, 1), cluster, {.faults = {{.server = 4}}}).find("server 4"), std::string::npos);
  cluster.fabric = Fabric::kRails;
  ASSERT_TRUE(lose_nic(cluster, 0, 0));
  ASSERT_TRUE(lose_nic(cluster, 1, 1));
  for (const PortModel model : {PortModel::kMultiPort, PortModel::kFair}) {
    EXPECT_NE(why(ring_schedule(4, 1), cluster, {.model = model}).find("rank 0 can not reach rank 1"),
              std::string::npos);
  }
}

TEST(Timing, GpusOfAServerUseItsFabric) {
  Cluster cluster = without_latency(1, 4, 1);
  cluster.intra_alpha_s = 2e-6;
  for (const PortModel model : {PortModel::kMultiPort, PortModel::kFair}) {
    const Result<Timing> timing = time_schedule(ring_schedule(4, 4), cluster, kGiB, {.model = model});
    ASSERT_TRUE(timing);
    EXPECT_NEAR(timing->time_s / (1.5 * kGiB / cluster.intra_rate + 6 * cluster.intra_alpha_s), 1, 1e-6);
    EXPECT_EQ(timing->messages, 0U);
    EXPECT_EQ(timing->intra_messages, 4U * 6);
  }
}

TEST(Timing, AGpuWithoutItsNicReachesOthersThroughItsNeighbours) {
  // GPU 0 of server 0 sends to GPU 0 of server 1; its own NIC is lost, so the bytes cross to GPU 1 first.
  Cluster cluster = without_latency(2, 2, 2);
  cluster.intra_alpha_s = 1e-3;
  Schedule schedule;
  schedule.header = test_header(4, 2, Layout::equal(1));
  schedule.lanes.resize(4);
  schedule.lanes[0] = {lane_of({send_step(fixed(2))}, 0)};
  schedule.lanes[2] = {lane_of({receive_step(fixed(0))})};
  EXPECT_NEAR(time_of(schedule, cluster, 50'000'000), 1e-3, 1e-9);
  ASSERT_TRUE(lose_nic(cluster, 0, 0));
  schedule.header.nic_of_rail = {1, 1, 0, 1};
  EXPECT_NEAR(time_of(schedule, cluster, 50'000'000), 2e-3, 1e-9);
}

TEST(Timing, GpusWithLostNicsShareThoseOfTheirNeighbours) {
  for (const std::uint32_t gpus : {2U, 4U, 8U}) {
    for (const std::uint32_t lost : {0U, 1U, 2U}) {
      Cluster cluster = Cluster::uniform(8, gpus, 8, 50e9);
      for (std::uint32_t nic = 0; nic < lost; ++nic) ASSERT_TRUE(lose_nic(cluster, 3, nic));
      const Schedule schedule = weighted_direct(cluster, {.segments = 32, .gpus = gpus});
      const double least_s = bound_s(cluster, kGiB);
      const double ports_s = time_of(schedule, cluster, kGiB);
      EXPECT_GE(ports_s, least_s);
      EXPECT_LE(ports_s / least_s, lost == 0 ? 1.01 : 1.06) << gpus << " GPUs, " << lost << " lost";
      EXPECT_NEAR(ports_s / time_of(schedule, cluster, kGiB, {.model = PortModel::kFair}), 1, 0.04)
          << gpus << ' ' << lost;
    }
  }
}

TEST(Timing, APortIsNeverUsedTwiceAtATime) {
  std::mt19937 rng(5);
  for (int i = 0; i < 6; ++i) {
    const Cluster cluster = random_cluster(rng, 6);
    std::vector<Occupancy> uses;
    TimingOptions options{.occupancy = &uses};
    if (i >= 3) options.faults = {{.at_s = 1e-3, .server = 2, .nic = 1, .rate = 1e9}};
    ASSERT_TRUE(time_schedule(weighted_direct(cluster), cluster, kGiB / (i % 2 == 0 ? 1 : 16), options));
    ASSERT_FALSE(uses.empty());
    const auto port = [](const Occupancy& use) { return std::tuple(use.server, use.nic, use.outgoing); };
    std::sort(uses.begin(), uses.end(), [&](const Occupancy& a, const Occupancy& b) {
      return std::tuple(port(a), a.begin_s) < std::tuple(port(b), b.begin_s);
    });
    for (std::size_t j = 0; j < uses.size(); ++j) {
      EXPECT_GT(uses[j].end_s, uses[j].begin_s);
      if (j > 0 && port(uses[j]) == port(uses[j - 1])) {
        EXPECT_GE(uses[j].begin_s, uses[j - 1].end_s - 1e-12);
      }
    }
  }
}

}  // namespace
}  // namespace r2ccl::sim
