#include "planner/ownership.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sstream>

#include "planner/bounds.h"
#include "planner/owners.h"

namespace r2ccl {
namespace {

constexpr double kRounding = 1e-9;

std::vector<double> one_slowed(std::size_t q, double left) {
  std::vector<double> bandwidth(q, 1.0);
  bandwidth[0] = left;
  return bandwidth;
}

TEST(Ownership, OneServerOwnsAllAndTwoOwnHalfEach) {
  EXPECT_EQ(ownership(std::vector<double>{3.0}).rho, std::vector<double>{1.0});
  EXPECT_EQ(ownership(std::vector<double>{3.0}).bound, 0);
  EXPECT_EQ(ownership(std::vector<double>{3.0, 1.0}).rho, (std::vector<double>{0.5, 0.5}));
  EXPECT_DOUBLE_EQ(ownership(std::vector<double>{3.0, 1.0}).bound, 1);
}

TEST(Ownership, EqualServersOwnEqualSharesAndAreEven) {
  for (const std::size_t q : {3UL, 4UL, 7UL, 128UL}) {
    const Ownership owned = ownership(std::vector<double>(q, 8.0));
    for (const double rho : owned.rho) {
      EXPECT_NEAR(rho, 1.0 / static_cast<double>(q), kRounding);
      EXPECT_EQ(rho, owned.rho[0]);
    }
    EXPECT_NEAR(owned.kappa, 0, kRounding);
  }
}

TEST(Ownership, TheLabCaseWithOneOfFourNicsLost) {
  const Ownership owned = ownership(std::vector<double>{3, 4, 4, 4});
  EXPECT_NEAR(owned.bound, 2.0 / 5, kRounding);
  EXPECT_NEAR(owned.rho[0], 0.1, kRounding);
  for (const int i : {1, 2, 3}) EXPECT_NEAR(owned.rho[static_cast<std::size_t>(i)], 0.3, kRounding);
  EXPECT_NEAR(owned.kappa, (1 - 0.4) / (3 * 0.4), kRounding);
}

TEST(Ownership, AServerWhoseOwnBytesDecideOwnsNothing) {
  for (const std::size_t q : {3UL, 16UL, 128UL}) {
    const Ownership owned = ownership(one_slowed(q, 0.5));
    EXPECT_EQ(owned.bound, 2);
    EXPECT_EQ(owned.rho[0], 0);
    for (std::size_t i = 1; i < q; ++i) EXPECT_NEAR(owned.rho[i], 1.0 / static_cast<double>(q - 1), kRounding);
    EXPECT_NEAR(owned.kappa, 1, kRounding);
  }
}

TEST(Ownership, WithoutAnyLossTheSlowdownLimitIsEqualShares) {
  const Ownership owned = ownership(one_slowed(16, 1 - 1e-12));
  EXPECT_NEAR(owned.rho[0], 1.0 / 16, kRounding);
}

// With a fixed seed, so that a run says the same everywhere.
template <class Property>
void expect_always(Property property) {
  rc::detail::TestParams params;
  params.seed = 20;
  params.maxSuccess = 2000;
  const auto result = rc::detail::checkTestable(property, rc::detail::TestMetadata{}, params);
  if (result.template is<rc::detail::SuccessResult>()) return;
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  FAIL() << text.str();
}

std::vector<double> any_bandwidths() {
  const auto q = *rc::gen::inRange<std::size_t>(2, 129);
  std::vector<double> bandwidth(q);
  const bool often_healthy = *rc::gen::arbitrary<bool>();
  for (double& b : bandwidth) {
    b = often_healthy && *rc::gen::inRange(0, 4) > 0 ? 400e9 : 4e9 * *rc::gen::inRange(1, 101);
  }
  return bandwidth;
}

TEST(Ownership, SharesSumToOneAndLoadNobodyBeyondTheBound) {
  expect_always([] {
    const std::vector<double> bandwidth = any_bandwidths();
    const auto q = static_cast<double>(bandwidth.size());
    const Ownership owned = ownership(bandwidth);
    RC_ASSERT(owned.bound == allreduce_bound(std::span<const double>(bandwidth)));
    double total = 0;
    double rho_sum = 0;
    for (std::size_t i = 0; i < bandwidth.size(); ++i) {
      const double load = 1 - owned.rho[i] + owned.rho[i] * (q - 1);
      RC_ASSERT(owned.rho[i] >= 0);
      RC_ASSERT(load <= bandwidth[i] * owned.bound * (1 + kRounding));
      total += load;
      rho_sum += owned.rho[i];
    }
    RC_ASSERT(std::abs(rho_sum - 1) < kRounding);
    // The volume lemma, met exactly: and where the sum of bandwidths decides, so is everybody's port.
    RC_ASSERT(std::abs(total - 2 * (q - 1)) < kRounding * q);
    RC_ASSERT(owned.kappa >= 0 && owned.kappa <= 1 + kRounding);
  });
}

TEST(Ownership, AFasterServerNeverOwnsLess) {
  expect_always([] {
    const std::vector<double> bandwidth = any_bandwidths();
    const Ownership owned = ownership(bandwidth);
    for (std::size_t i = 1; i < bandwidth.size(); ++i) {
      if (bandwidth[i] > bandwidth[i - 1]) RC_ASSERT(owned.rho[i] >= owned.rho[i - 1]);
      if (bandwidth[i] == bandwidth[i - 1]) RC_ASSERT(owned.rho[i] == owned.rho[i - 1]);
    }
  });
}

TEST(ShardOwners, ServersOwnTheirShareAndNothingOfShardsOfGpusWithoutNic) {
  Cluster cluster = Cluster::uniform(4, 8, 8, 50e9);
  for (const auto& [server, nic] : {std::pair{0U, 5U}, {0U, 0U}, {1U, 0U}, {2U, 2U}})
    ASSERT_TRUE(lose_nic(cluster, server, nic));
  const std::vector<double> rho = owners_of(cluster)->rho;
  const std::vector<double> owned = shard_owners(cluster, rho);
  ASSERT_EQ(owned.size(), 32u);
  std::vector<double> size(8, 0.0);
  for (std::uint32_t server = 0; server < 4; ++server) {
    double all = 0;
    for (std::uint32_t gpu = 0; gpu < 8; ++gpu) {
      const double part = owned[gpu * 4 + server];
      EXPECT_EQ(part == 0, cluster.nic(server, gpu) <= 0) << server << ":" << gpu;
      all += part;
      size[gpu] += part;
    }
    EXPECT_NEAR(all, rho[server], kRounding) << server;
  }
  // The fabric ports of server 0: its GPUs without NIC as busy as those that carry their traffic.
  const double carried = (size[0] + size[5]) / 6;
  EXPECT_NEAR(1 + 7 * size[0], 1 + 6 * size[1] + carried, 1e-3);
  EXPECT_NEAR(size[0], size[5], 1e-3);
}

TEST(OwnedShares, AServerWithoutBandwidthOwnsNothing) {
  const std::vector<double> rho = owned_shares(std::vector<double>{0, 4, 4, 4}, 0.5);
  EXPECT_EQ(rho[0], 0);
  EXPECT_NEAR(rho[1] + rho[2] + rho[3], 1, kRounding);
}

}  // namespace
}  // namespace r2ccl
