#include "planner/bounds.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace r2ccl {
namespace {

// Exact; small enough numbers that 64 bits hold every product here.
class Rational {
 public:
  explicit Rational(std::int64_t whole) : Rational(whole, 1) {}
  Rational(std::int64_t top, std::int64_t bottom) : top_(top), bottom_(bottom) {
    const std::int64_t common = std::gcd(top_, bottom_) * (bottom_ < 0 ? -1 : 1);
    top_ /= common;
    bottom_ /= common;
  }
  friend Rational operator+(Rational a, Rational b) {
    return {a.top_ * b.bottom_ + b.top_ * a.bottom_, a.bottom_ * b.bottom_};
  }
  friend Rational operator*(Rational a, Rational b) { return {a.top_ * b.top_, a.bottom_ * b.bottom_}; }
  friend Rational operator/(Rational a, Rational b) { return {a.top_ * b.bottom_, a.bottom_ * b.top_}; }
  friend bool operator<(Rational a, Rational b) { return a.top_ * b.bottom_ < b.top_ * a.bottom_; }
  friend bool operator==(Rational a, Rational b) { return a.top_ == b.top_ && a.bottom_ == b.bottom_; }
  // With so many decimals, rounded half up.
  std::string text(int decimals) const {
    std::int64_t unit = 1;
    for (int i = 0; i < decimals; ++i) unit *= 10;
    const std::int64_t scaled = (2 * top_ * unit + bottom_) / (2 * bottom_);
    return fmt::format("{}.{:0{}}", scaled / unit, scaled % unit, decimals);
  }

 private:
  std::int64_t top_, bottom_;
};

Rational tstar(const std::vector<Rational>& bandwidth) {
  return allreduce_bound(std::span<const Rational>(bandwidth));
}

std::vector<Rational> with_stragglers(int members, std::vector<Rational> left) {
  left.resize(static_cast<std::size_t>(members), Rational(1));
  return left;
}

TEST(AllreduceBound, ReproducesTheTableOfOneStraggler) {
  struct Row {
    int p;
    Rational beta;
    std::string one_port, shared;
  };
  const std::vector<Row> rows{
      {4, {7, 8}, "1.0667", "1.0323"},  {4, {3, 4}, "1.1429", "1.0667"},  {4, {1, 2}, "1.3333", "1.3333"},
      {4, {3, 8}, "1.7778", "1.7778"},  {8, {7, 8}, "1.0323", "1.0159"},  {8, {3, 4}, "1.0667", "1.0323"},
      {8, {1, 2}, "1.1429", "1.1429"},  {8, {3, 8}, "1.5238", "1.5238"},  {16, {7, 8}, "1.0159", "1.0079"},
      {16, {3, 4}, "1.0323", "1.0159"}, {16, {1, 2}, "1.0667", "1.0667"}, {16, {3, 8}, "1.4222", "1.4222"},
      {32, {7, 8}, "1.0079", "1.0039"}, {32, {3, 4}, "1.0159", "1.0079"}, {32, {1, 2}, "1.0323", "1.0323"},
      {32, {3, 8}, "1.3763", "1.3763"}, {64, {7, 8}, "1.0039", "1.0020"}, {64, {3, 4}, "1.0079", "1.0039"},
      {64, {1, 2}, "1.0159", "1.0159"}, {64, {3, 8}, "1.3545", "1.3545"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(fmt::format("{} members, {} left", row.p, row.beta.text(3)));
    const Rational healthy = ring_time<Rational>(row.p);
    EXPECT_EQ((one_port_bound(row.p, Rational(1) / row.beta) / healthy).text(4), row.one_port);
    EXPECT_EQ((tstar(with_stragglers(row.p, {row.beta})) / healthy).text(4), row.shared);
  }
}

TEST(AllreduceBound, ReproducesTheTableOfSeveralStragglers) {
  struct Row {
    int p;
    std::vector<Rational> left;
    std::string time, ratio;
  };
  const Rational half(1, 2);
  const Rational most(7, 8);
  const std::vector<Row> rows{
      {8, {half, half}, "2.000", "1.143"},
      {8, {half, half, half}, "2.154", "1.231"},
      {8, {most, {3, 4}, half}, "2.000", "1.143"},
      {16, {half, half}, "2.000", "1.067"},
      {16, {half, half, half, half}, "2.143", "1.143"},
      {16, {most, most, most, most}, "1.935", "1.032"},  // 60/31; the notes print 1.936
      {32, {half, half, half, half}, "2.067", "1.067"},
      {64, {half, half, half, half, half, half, half, half}, "2.100", "1.067"},
      {64, {most, {3, 4}, half, {3, 8}}, "2.667", "1.354"},
  };
  for (const Row& row : rows) {
    const Rational time = tstar(with_stragglers(row.p, row.left));
    EXPECT_EQ(time.text(3), row.time);
    EXPECT_EQ((time / ring_time<Rational>(row.p)).text(3), row.ratio);
  }
}

TEST(AllreduceBound, ReproducesTheTableOfServers) {
  struct Row {
    int q, lost;
    std::string paper, flat, hierarchical, shared;
  };
  const std::vector<Row> rows{
      {4, 1, "1.600", "0.826", "1.067", "1.032"},
      {4, 2, "1.714", "0.885", "1.143", "1.067"},
      {4, 4, "2.000", "1.032", "1.333", "1.333"},
      {8, 1, "1.806", "0.918", "1.032", "1.016"},  // 56/31; the notes print 1.807
      {8, 2, "1.867", "0.948", "1.067", "1.032"},
      {8, 4, "2.000", "1.016", "1.143", "1.143"},
      {16, 1, "1.905", "0.960", "1.016", "1.008"},
      {16, 4, "2.000", "1.008", "1.067", "1.067"},
      {32, 1, "1.953", "0.980", "1.008", "1.004"},
      {32, 4, "2.000", "1.004", "1.032", "1.032"},
      {4, 5, "2.667", "1.376", "1.778", "1.778"},
      {32, 5, "2.667", "1.339", "1.376", "1.376"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(fmt::format("{} servers, {} lost", row.q, row.lost));
    const Rational left(8 - row.lost, 8);
    const Rational paper = one_port_bound(row.q, Rational(1) / left);
    EXPECT_EQ(paper.text(3), row.paper);
    EXPECT_EQ((paper / ring_time<Rational>(8 * row.q)).text(3), row.flat);
    EXPECT_EQ((paper / ring_time<Rational>(row.q)).text(3), row.hierarchical);
    EXPECT_EQ((tstar(with_stragglers(row.q, {left})) / ring_time<Rational>(row.q)).text(3), row.shared);
  }
}

TEST(AllreduceBound, MeetsItsLimits) {
  for (const int p : {2, 3, 8, 64}) {
    EXPECT_EQ(one_port_bound(p, Rational(1)), ring_time<Rational>(p)) << "no loss is the ring";
    EXPECT_EQ(tstar(with_stragglers(p, {})), ring_time<Rational>(p));
    EXPECT_EQ(one_port_bound(p, Rational(2)), Rational(2));
    EXPECT_EQ(one_port_bound(p, Rational(5)), Rational(5));
  }
  EXPECT_EQ(tstar({Rational(1)}), Rational(0));
}

// 4 servers x 2 GPUs x 2 NICs at 10 bytes/s, fabric ports of 100; server 1 has lost a NIC.
Cluster small_cluster() {
  Cluster cluster = Cluster::uniform(4, 2, 2, 10.0);
  cluster.intra_rate = 100;
  EXPECT_TRUE(lose_nic(cluster, 1, 1));
  return cluster;
}

TEST(Bounds, AllReduceHasThePooledBoundThePapersAndTheHealthyRings) {
  const Bounds b = bounds_of(Collective::kAllReduce, 800, small_cluster());
  EXPECT_DOUBLE_EQ(b.network_s, 800.0 / 10) << "more than 6 * 800 / 70";
  EXPECT_DOUBLE_EQ(b.one_port_s, 2 * 800.0 / 20);
  EXPECT_DOUBLE_EQ(b.healthy_ring_s, 1.5 * 800 / 20);
  EXPECT_DOUBLE_EQ(b.healthy_flat_s, 1.75 * 800 / 20);
  EXPECT_DOUBLE_EQ(b.intra_s, (1.0 + 1.0 / 2) * 800 / 100) << "one of two GPUs has lost its NIC";
  EXPECT_DOUBLE_EQ(b.ports_s, 14 * 800.0 / (70 + 8 * 100));
  EXPECT_DOUBLE_EQ(b.bound_s, b.network_s);
}

TEST(Bounds, FabricVolumeFollowsTheGpusThatHaveANic) {
  Cluster cluster = Cluster::uniform(16, 8, 8, 50e9);
  const auto volume = [&] {
    return bounds_of(Collective::kAllReduce, 1 << 30, cluster).intra_s * cluster.intra_rate / (1 << 30);
  };
  EXPECT_NEAR(volume(), 1.75, 1e-9);
  ASSERT_TRUE(lose_nic(cluster, 3, 0));
  EXPECT_NEAR(volume(), 1.768, 1e-3);
  for (const std::uint32_t nic : {1U, 2U, 3U}) ASSERT_TRUE(lose_nic(cluster, 3, nic));
  EXPECT_NEAR(volume(), 1.875, 1e-9);
}

TEST(Bounds, WithFewServersTheFabricDecides) {
  const Cluster cluster = Cluster::uniform(2, 8, 8, 50e9);
  const Bounds b = bounds_of(Collective::kAllReduce, 1 << 30, cluster);
  EXPECT_GT(b.ports_s, b.network_s);
  EXPECT_EQ(b.bound_s, b.ports_s);
  EXPECT_LE(b.ports_s, b.intra_s) << "a schedule that loads NICs least can not beat the bound";
}

TEST(Bounds, BlockCollectivesMoveEachServersBytes) {
  const Cluster c = small_cluster();
  for (const Collective collective : {Collective::kAllGather, Collective::kReduceScatter}) {
    const Bounds b = bounds_of(collective, 800, c);
    EXPECT_DOUBLE_EQ(b.network_s, 0.75 * 800 / 10);
    EXPECT_DOUBLE_EQ(b.intra_s, 0.5 * 800 / 100);
    EXPECT_DOUBLE_EQ(b.ports_s, 2 * 0.875 * 800 / (10 + 200));
    EXPECT_DOUBLE_EQ(b.healthy_ring_s, 0.75 * 800 / 20);
    EXPECT_DOUBLE_EQ(b.healthy_flat_s, 0.875 * 800 / 20);
    EXPECT_EQ(b.one_port_s, 0);
  }
  const Bounds all = bounds_of(Collective::kAllToAll, 800, c);
  EXPECT_DOUBLE_EQ(all.network_s, 2 * 0.75 * 800 / 10);
  EXPECT_DOUBLE_EQ(all.intra_s, 800.0 / 8 / 100);
  EXPECT_DOUBLE_EQ(all.healthy_ring_s, 2 * 0.75 * 800 / 20);
}

TEST(Bounds, GatherAndScatterDependOnTheRootsServer) {
  const Cluster c = small_cluster();
  for (const Collective collective : {Collective::kGather, Collective::kScatter}) {
    EXPECT_DOUBLE_EQ(bounds_of(collective, 800, c, 0).network_s, 0.75 * 800 / 20);
    EXPECT_DOUBLE_EQ(bounds_of(collective, 800, c, 3).network_s, 0.75 * 800 / 10) << "rank 3 is on server 1";
    EXPECT_DOUBLE_EQ(bounds_of(collective, 800, c, 3).ports_s, 0.875 * 800 / (10 + 100));
    EXPECT_DOUBLE_EQ(bounds_of(collective, 800, c).healthy_ring_s, 0.75 * 800 / 20);
  }
}

TEST(Bounds, BroadcastAndReduceTakeTheWeakestServersTime) {
  for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
    const Bounds b = bounds_of(collective, 800, small_cluster());
    EXPECT_DOUBLE_EQ(b.network_s, 80);
    EXPECT_DOUBLE_EQ(b.ports_s, 2 * 800.0 / (10 + 200));
    EXPECT_DOUBLE_EQ(b.healthy_ring_s, 40);
    EXPECT_DOUBLE_EQ(b.healthy_flat_s, 40);
  }
}

TEST(Bounds, OneServerUsesItsFabricOnly) {
  Cluster cluster = Cluster::uniform(1, 4, 4, 10.0);
  cluster.intra_rate = 100;
  const Bounds b = bounds_of(Collective::kAllReduce, 400, cluster);
  EXPECT_EQ(b.network_s, 0);
  EXPECT_DOUBLE_EQ(b.bound_s, 1.5 * 400 / 100);
  EXPECT_DOUBLE_EQ(b.intra_s, b.bound_s);
  EXPECT_DOUBLE_EQ(b.healthy_ring_s, b.bound_s);
  EXPECT_DOUBLE_EQ(bounds_of(Collective::kBroadcast, 400, cluster).bound_s, 4);
}

TEST(Bounds, OneGpuPerServerNeedsNoFabric) {
  const Bounds b = bounds_of(Collective::kAllGather, 400, Cluster::uniform(4, 1, 4, 10.0));
  EXPECT_EQ(b.intra_s, 0);
  EXPECT_EQ(b.ports_s, 0);
  EXPECT_DOUBLE_EQ(b.bound_s, 0.75 * 400 / 40);
}

}  // namespace
}  // namespace r2ccl
