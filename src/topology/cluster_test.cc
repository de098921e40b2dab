#include "topology/cluster.h"

#include <gtest/gtest.h>

#include <limits>

namespace r2ccl {
namespace {

TEST(Cluster, UniformIsHealthyAndValid) {
  const Cluster cluster = Cluster::uniform(4, 8, 8, 50e9);
  EXPECT_TRUE(cluster.healthy());
  EXPECT_TRUE(validate(cluster));
  EXPECT_EQ(cluster.ranks(), 32U);
  EXPECT_DOUBLE_EQ(cluster.server_rate(3), 400e9);
  EXPECT_DOUBLE_EQ(cluster.healthy_server_rate(), 400e9);
}

TEST(Cluster, LostAndSlowedNicsCountOnTheirServerOnly) {
  Cluster cluster = Cluster::uniform(3, 1, 4, 10.0);
  ASSERT_TRUE(lose_nic(cluster, 1, 2));
  ASSERT_TRUE(slow_nic(cluster, 2, 3, 0.25));
  EXPECT_FALSE(cluster.healthy());
  EXPECT_DOUBLE_EQ(cluster.server_rate(0), 40);
  EXPECT_DOUBLE_EQ(cluster.server_rate(1), 30);
  EXPECT_DOUBLE_EQ(cluster.server_rate(2), 32.5);
  EXPECT_EQ(cluster.nic(1, 2), 0);
}

TEST(Cluster, TheLastNicOfAServerCanNotBeLost) {
  Cluster cluster = Cluster::uniform(2, 1, 2, 10.0);
  ASSERT_TRUE(lose_nic(cluster, 0, 0));
  const Status refused = lose_nic(cluster, 0, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, Fault::kMisuse);
  EXPECT_EQ(cluster.nic(0, 1), 10);
  EXPECT_TRUE(lose_nic(cluster, 0, 0)) << "a lost NIC may be lost again";
}

TEST(Cluster, RefusesNicsThatDoNotExistAndFractionsOutOfRange) {
  Cluster cluster = Cluster::uniform(2, 1, 2, 10.0);
  EXPECT_EQ(lose_nic(cluster, 2, 0).error().what, "there is no server 2; servers are 0 to 1");
  EXPECT_EQ(slow_nic(cluster, 0, 2, 0.5).error().what, "there is no NIC 2 on server 0; NICs are 0 to 1");
  EXPECT_FALSE(slow_nic(cluster, 0, 0, 0));
  EXPECT_FALSE(slow_nic(cluster, 0, 0, 1.5));
  EXPECT_FALSE(slow_nic(cluster, 0, 0, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(cluster.healthy());
}

TEST(Cluster, ValidationNamesWhatIsWrong) {
  const auto broken = [](auto change) {
    Cluster cluster = Cluster::uniform(2, 1, 2, 10.0);
    change(cluster);
    const Status status = validate(cluster);
    return status ? std::string("valid") : status.error().what;
  };
  EXPECT_EQ(broken([](Cluster& c) { c.gpus = 0; }), "a cluster needs at least one server, one GPU and one NIC");
  EXPECT_EQ(broken([](Cluster& c) { c.rate.pop_back(); }), "3 rates given for 2 servers with 2 NICs");
  EXPECT_EQ(broken([](Cluster& c) { c.rate[2] = -1; }), "NIC 0 of server 1 has a rate of -1 bytes/s; say 0 or more");
  EXPECT_EQ(broken([](Cluster& c) { c.rate[1] = std::numeric_limits<double>::infinity(); }),
            "NIC 1 of server 0 has a rate of inf bytes/s; say 0 or more");
  EXPECT_EQ(broken([](Cluster& c) { c.rate[2] = c.rate[3] = 0; }),
            "server 1 has no working NIC; each server needs one");
  EXPECT_NE(broken([](Cluster& c) { c.nic_rate = 0; }), "valid");
  EXPECT_NE(broken([](Cluster& c) { c.intra_rate = std::numeric_limits<double>::quiet_NaN(); }), "valid");
  EXPECT_NE(broken([](Cluster& c) { c.alpha_s = -1e-6; }), "valid");
  EXPECT_EQ(broken([](Cluster& c) { c.rate[3] = 0; }), "valid");
}

TEST(Cluster, GpusAndNicsAreSpreadOverEachOtherEvenly) {
  const auto homes = [](std::uint32_t gpus, std::uint32_t nics) {
    const Cluster cluster = Cluster::uniform(1, gpus, nics, 1.0);
    std::vector<std::uint32_t> result;
    for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) result.push_back(cluster.home_nic(gpu));
    return result;
  };
  using Homes = std::vector<std::uint32_t>;
  EXPECT_EQ(homes(4, 4), (Homes{0, 1, 2, 3}));
  EXPECT_EQ(homes(2, 8), (Homes{0, 4}));
  EXPECT_EQ(homes(8, 4), (Homes{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(homes(3, 2), (Homes{0, 0, 1}));
}

}  // namespace
}  // namespace r2ccl
