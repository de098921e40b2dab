// Goal: messages that come before their receives are handed over once, in order, and the grant is whole again in
// the end. Method: chunks are given to an inbox by hand.

#include "session/streams/inbox.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace r2ccl {
namespace {

constexpr GroupId kGroup{7};
constexpr StreamKey kKey{kGroup, {1}};

class EarlyMessages : public testing::Test {
 protected:
  EarlyMessages() {
    limits_.hand_over_early = true;
    inbox_.open_group(kGroup);
  }

  // `length` bytes of a message of `total`, each byte `fill`.
  void arrive(std::uint64_t sequence, std::size_t offset, std::uint32_t length, std::size_t total, std::uint8_t fill) {
    DataBody body{.chunk = {next_chunk_++}, .group = kGroup, .stream = kKey.stream, .sequence = sequence};
    body.offset = offset;
    body.total = total;
    body.tag = sequence + 100;
    body.flags = DataBody::kEager;
    const Inbox::Place place = inbox_.place(body, length);
    ASSERT_EQ(place.ask, Inbox::Ask::kLand);
    place.memory.region->write(place.memory.offset, Bytes(length, std::byte{fill}));
    ASSERT_TRUE(inbox_.on_chunk(body, length));
  }
  void arrive(std::uint64_t sequence, std::uint32_t length, std::uint8_t fill) {
    arrive(sequence, 0, length, length, fill);
  }
  std::vector<EarlyMessage> take() { return std::exchange(inbox_.early(), {}); }

  SessionLimits limits_;
  Rules rules_;
  Inbox inbox_{limits_, rules_};
  std::uint64_t next_chunk_ = 1;
};

TEST_F(EarlyMessages, AreHandedOverInOrderOnceWhole) {
  arrive(0, 0, 50, 80, 1);
  arrive(1, 20, 2);
  EXPECT_TRUE(take().empty()) << "the first is not whole";
  arrive(0, 50, 30, 80, 1);
  const auto early = take();
  ASSERT_EQ(early.size(), 2u);
  for (std::uint8_t i = 0; i < 2; ++i) {
    EXPECT_EQ(early[i].key, kKey);
    EXPECT_EQ(early[i].tag, i + 100u);
    EXPECT_EQ(early[i].length, i == 0 ? 80u : 20u);
    EXPECT_TRUE(std::ranges::all_of(early[i].bytes(), [&](std::byte byte) { return byte == std::byte(i + 1); }));
  }
  EXPECT_TRUE(inbox_.completions().empty());
}

TEST_F(EarlyMessages, LeaveTheNextMessageToTheNextReceive) {
  arrive(0, 10, 1);
  EXPECT_EQ(take().size(), 1u);
  Bytes bytes(10);
  HostRegion memory(bytes.data(), bytes.size());
  EXPECT_EQ(inbox_.receive(kKey, {&memory, 0, 10}, 0, 5), 1u);
  arrive(1, 10, 2);
  EXPECT_TRUE(take().empty());
  ASSERT_EQ(inbox_.completions().size(), 1u);
  EXPECT_EQ(inbox_.completions()[0].token, 5u);
  EXPECT_EQ(bytes, Bytes(10, std::byte{2}));
}

// A receive for the one that is under way lets those behind it go.
TEST_F(EarlyMessages, BehindAReceiveAreHandedOverToo) {
  arrive(0, 0, 50, 80, 1);
  arrive(1, 20, 2);
  Bytes bytes(80);
  HostRegion memory(bytes.data(), bytes.size());
  EXPECT_EQ(inbox_.receive(kKey, {&memory, 0, 80}, 0, 5), 0u);
  const auto early = take();
  ASSERT_EQ(early.size(), 1u);
  EXPECT_EQ(early[0].length, 20u);
  arrive(0, 50, 30, 80, 1);
  EXPECT_EQ(inbox_.completions().size(), 1u);
  EXPECT_EQ(bytes, Bytes(80, std::byte{1}));
}

TEST_F(EarlyMessages, CountAgainstTheGrantUntilTheyAreGivenBack) {
  arrive(0, 100, 1);
  arrive(1, 30'000, 2);
  auto early = take();
  EXPECT_EQ(inbox_.eager_released(), 0u);
  for (EarlyMessage& message : early) inbox_.give_back(std::move(message));
  EXPECT_EQ(inbox_.eager_released(), eager_charge(100) + eager_charge(30'000));
  EXPECT_NE(inbox_.unreceipted(), 0u) << "the sender must hear of it";
}

TEST_F(EarlyMessages, OfAGroupThatEndsAreGivenBackOnce) {
  arrive(0, 100, 1);
  auto taken = take();
  arrive(1, 200, 2);  // nobody takes it
  inbox_.end_group(kGroup, {Fault::kAborted, "over"});
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(inbox_.eager_released(), eager_charge(200));
  inbox_.give_back(std::move(taken[0]));
  EXPECT_EQ(inbox_.eager_released(), eager_charge(100) + eager_charge(200));
}

TEST_F(EarlyMessages, StayWhereNobodyAskedForThem) {
  limits_.hand_over_early = false;
  arrive(0, 10, 1);
  EXPECT_TRUE(take().empty());
  Bytes bytes(10);
  HostRegion memory(bytes.data(), bytes.size());
  EXPECT_EQ(inbox_.receive(kKey, {&memory, 0, 10}, 0, 5), 0u);
  EXPECT_EQ(inbox_.completions().size(), 1u);
}

}  // namespace
}  // namespace r2ccl
