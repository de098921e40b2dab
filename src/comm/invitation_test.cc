// Goal: whoever is invited hears of the id from the first of them, however late that one is, or why not; nobody else
// does.
// Method: processes in memory; the test moves the clock.

#include "comm/invitation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <ranges>
#include <vector>

#include "testing/engine_net.h"

namespace r2ccl {
namespace {

constexpr GroupId kGroup{77};

class InvitationTest : public testing::Test {
 protected:
  InvitationTest() {
    const UniqueId id = net_.make_id();
    for (std::uint32_t rank = 0; rank < 4; ++rank) keys_.push_back(net_.engine(rank).join(id, rank, 4));
    EXPECT_TRUE(net_.run([&] {
      return std::ranges::all_of(std::views::iota(0u, 4u), [&](auto rank) { return net_.engine(rank).ready(); });
    }));
    new_id_ = net_.make_id();
  }
  // As process `rank` sees it; the first guest has the id.
  std::unique_ptr<Invitation> invite(std::uint32_t rank, const std::vector<std::uint32_t>& guests) {
    std::vector<ProcessInfo> named;
    for (const std::uint32_t guest : guests) named.push_back(net_.engine(rank).roster(keys_[rank])[guest]);
    return std::make_unique<Invitation>(net_.engine(rank), kGroup, named,
                                        rank == guests[0] ? std::optional(new_id_) : std::nullopt);
  }

  test::EngineNet net_{4};
  std::vector<KeyId> keys_;
  UniqueId new_id_;
};

TEST_F(InvitationTest, AllHearOfTheFirstOnesId) {
  const auto first = invite(1, {1, 2, 3});
  const auto second = invite(2, {1, 2, 3});
  const auto third = invite(3, {1, 2, 3});
  EXPECT_TRUE(first->over());
  EXPECT_FALSE(second->over());
  ASSERT_TRUE(net_.run([&] { return second->over() && third->over(); }, 1s));
  for (const auto* one : {second.get(), third.get()}) {
    ASSERT_TRUE(one->id());
    EXPECT_EQ(one->id()->secret, new_id_.secret);
    EXPECT_EQ(one->id()->root, new_id_.root);
    EXPECT_EQ(one->failure(), "");
  }
}

TEST_F(InvitationTest, WhoAsksBeforeTheFirstIsThereIsAnsweredLater) {
  const auto second = invite(2, {1, 2});
  net_.pass(1s);
  EXPECT_FALSE(second->over());
  const auto first = invite(1, {1, 2});
  EXPECT_TRUE(net_.run([&] { return second->over(); }, 200ms));
  EXPECT_TRUE(second->id());
}

TEST_F(InvitationTest, AsksOftenAtFirstAndSeldomLater) {
  const auto second = invite(2, {1, 2});
  std::vector<Duration> waits;
  for (Instant at = net_.now(); waits.size() < 6;) {
    const Turn turn = second->step(at);
    EXPECT_TRUE(turn.moved);
    EXPECT_FALSE(second->step(turn.next - 1us).moved);
    waits.push_back(turn.next - at);
    at = turn.next;
  }
  EXPECT_EQ(waits, (std::vector<Duration>{10ms, 20ms, 40ms, 80ms, 100ms, 100ms}));
}

TEST_F(InvitationTest, WhoIsNotInvitedIsNotAnswered) {
  const auto first = invite(1, {1, 2});
  const auto stranger = invite(3, {1, 2, 3});
  const auto second = invite(2, {1, 2});
  ASSERT_TRUE(net_.run([&] { return second->over(); }, 1s));
  net_.pass(500ms);
  EXPECT_FALSE(stranger->over());
}

TEST_F(InvitationTest, OnlyTheFirstIsBelieved) {
  const auto second = invite(2, {1, 2, 3});
  const auto packed = new_id_.pack();
  second->on_notice({4}, packed);
  EXPECT_FALSE(second->over()) << "rank 3 is process 4, and not the first";
  second->on_notice({2}, Bytes(5));
  EXPECT_FALSE(second->over()) << "no id can be read in it";
  second->on_notice({2}, packed);
  EXPECT_TRUE(second->over());
}

TEST_F(InvitationTest, WithTheFirstGoneItFailsByName) {
  const auto second = invite(2, {1, 2});
  net_.pass(100ms);
  net_.kill(1);
  ASSERT_TRUE(net_.run([&] { return second->over(); }));
  EXPECT_FALSE(second->id());
  EXPECT_THAT(second->failure(), testing::StartsWith("Rank 1 (host1), the first of those that stay, is gone"));
  EXPECT_EQ(second->step(net_.now()).next, kNever) << "it asks no more";
}

TEST_F(InvitationTest, TheFirstHasTheIdAndOnlyTheFirst) {
  const std::vector<ProcessInfo> guests{net_.engine(1).roster(keys_[1])[1], net_.engine(1).roster(keys_[1])[2]};
  EXPECT_THROW(Invitation(net_.engine(1), kGroup, guests, std::nullopt), Bug);
  EXPECT_THROW(Invitation(net_.engine(2), kGroup, guests, new_id_), Bug);
  EXPECT_THROW(Invitation(net_.engine(1), kGroup, {}, new_id_), Bug);
}

}  // namespace
}  // namespace r2ccl
