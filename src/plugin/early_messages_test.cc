// Goal: the n-th receive of a stream takes its n-th message, whoever takes it.

#include "plugin/early_messages.h"

#include <gtest/gtest.h>

namespace r2ccl::plugin {
namespace {

constexpr StreamId kOne{1}, kOther{2};

EarlyMessage message(StreamId stream, std::uint64_t number, std::size_t length = 10) {
  return {.key = {GroupId{7}, stream}, .tag = number, .length = length, .memory = nullptr, .charge = 0};
}
std::uint64_t number_of(const std::optional<EarlyMessage>& taken) {
  return taken ? taken->tag : 0;
}

TEST(EarlyMessages, GivesTheMessagesOfAStreamInOrder) {
  EarlyMessages early;
  early.put(message(kOne, 1));
  early.put(message(kOther, 2));
  early.put(message(kOne, 3));
  EXPECT_EQ(number_of(early.take_now(kOther, 10)), 2u);
  EXPECT_EQ(number_of(early.take_now(kOne, 10)), 1u);
  EXPECT_EQ(number_of(early.take(kOne)), 3u);
  EXPECT_FALSE(early.take_now(kOne, 10));
}

// A receive was asked for when the early was empty. The message that came since is its, not that of the receive behind
// it.
TEST(EarlyMessages, ReceivesOnTheirWayGoFirst) {
  EarlyMessages early;
  ASSERT_FALSE(early.take_now(kOne, 10));
  early.send_on();
  early.put(message(kOne, 1));
  early.put(message(kOne, 2));
  EXPECT_FALSE(early.take_now(kOne, 10));
  EXPECT_EQ(number_of(early.take(kOne)), 1u);
  early.arrived();
  EXPECT_EQ(number_of(early.take_now(kOne, 10)), 2u);
}

// Who has the engine reports the misuse.
TEST(EarlyMessages, AMessageThatDoesNotFitIsLeft) {
  EarlyMessages early;
  early.put(message(kOne, 1, 11));
  early.put(message(kOne, 2, 5));
  EXPECT_FALSE(early.take_now(kOne, 10));
  EXPECT_EQ(number_of(early.take(kOne)), 1u);
}

TEST(EarlyMessages, IsEmptyOnceAllIsTaken) {
  EarlyMessages early;
  early.put(message(kOne, 1));
  early.put(message(kOther, 2));
  EXPECT_EQ(early.take_all().size(), 2u);
  EXPECT_FALSE(early.take(kOne));
  EXPECT_TRUE(early.take_all().empty());
}

}  // namespace
}  // namespace r2ccl::plugin
