#include "bindings/nccl/partition.h"

#include <gtest/gtest.h>

#include "bindings/nccl/call_batch.h"
#include "bindings/nccl/launch_state.h"

namespace r2ccl::bindings {
namespace {

TEST(Partition, TiesOfKeysBreakOnTheOldRank) {
  const ColorKey all[] = {{0, 5}, {0, 5}, {1, 0}, {0, -1}};
  EXPECT_EQ(place_in_split(all, 3).rank, 0U);
  EXPECT_EQ(place_in_split(all, 0).rank, 1U);
  EXPECT_EQ(place_in_split(all, 1).rank, 2U);
  EXPECT_EQ(place_in_split(all, 1).first, 3U);
  EXPECT_EQ(place_in_split(all, 1).size, 3U);
  EXPECT_EQ(place_in_split(all, 2).size, 1U);
}

TEST(Partition, OnlyRanksThatAreThereCanBeExcludedAndOnlyOnce) {
  std::vector<std::uint32_t> stay;
  const int good[] = {3, 0};
  EXPECT_TRUE(ranks_that_stay(good, 1, 4, stay).ok());
  EXPECT_EQ(stay, (std::vector<std::uint32_t>{1, 2}));
  const int twice[] = {3, 3};
  EXPECT_EQ(ranks_that_stay(twice, 1, 4, stay).code, ncclInvalidArgument);
  const int far[] = {4};
  EXPECT_EQ(ranks_that_stay(far, 1, 4, stay).code, ncclInvalidArgument);
  EXPECT_EQ(ranks_that_stay(good, 0, 4, stay).code, ncclInvalidUsage);
}

// Calls that have nothing in common must not wait for each other.
TEST(Launches, AreWhatSharesACommunicatorOrAStream) {
  const auto a = std::make_shared<Member>(MemberConfig{});
  const auto b = std::make_shared<Member>(MemberConfig{});
  const auto c = std::make_shared<Member>(MemberConfig{});
  const auto s = std::make_shared<HostStream>();
  const auto t = std::make_shared<HostStream>();
  using Launches = std::vector<std::size_t>;
  EXPECT_EQ(launch_of_each({{a, s, {}}, {b, t, {}}, {a, s, {}}}), (Launches{0, 1, 0}));
  EXPECT_EQ(launch_of_each({{a, s, {}}, {b, s, {}}}), (Launches{0, 0})) << "a stream joins";
  EXPECT_EQ(launch_of_each({{a, s, {}}, {b, t, {}}, {c, nullptr, {}}, {b, s, {}}}), (Launches{0, 0, 1, 0}));
  EXPECT_EQ(launch_of_each({{a, nullptr, {}}, {b, nullptr, {}}}), (Launches{0, 0})) << "NULL is a stream too";
}

}  // namespace
}  // namespace r2ccl::bindings
