// Goal: every byte is cut once, sent as often as it must be and not more, and its memory is free after the receipt.
// Method: an outbox is told by hand what the peer says and which copies died.

#include "session/streams/outbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace r2ccl {
namespace {

constexpr GroupId kGroup{7};
constexpr StreamKey kKey{kGroup, {1}};
constexpr PathId kLow{{0}, {0}}, kHigh{{1}, {1}};
const Error kOver{Fault::kAborted, "over"};

std::optional<Fault> fault_of(const Result<std::uint64_t>& sent) {
  return sent ? std::nullopt : std::optional(sent.error().fault);
}

class OutboxTest : public testing::Test {
 protected:
  OutboxTest() {
    limits_.chunk_bytes = 16 << 10;
    limits_.copy_bytes_max = 100;
    limits_.eager_message_max = 0;
    outbox_.open_group(kGroup);
    outbox_.on_group_joined(kGroup);
  }

  // Each message has memory of its own, which the test may look at.
  std::uint64_t send(std::size_t bytes, StreamKey key = kKey, std::optional<NicId> nic = {}) {
    Bytes& content = memory_.emplace_back(bytes);
    std::iota(reinterpret_cast<std::uint8_t*>(content.data()),
              reinterpret_cast<std::uint8_t*>(content.data()) + content.size(), static_cast<std::uint8_t>(7));
    regions_.emplace_back(content.data(), bytes);
    const auto sequence = outbox_.send(key, {&regions_.back(), 0, bytes}, 40 + memory_.size(), memory_.size(), nic);
    return sequence.value();
  }
  void credit(std::uint64_t sequence, std::uint64_t capacity = 1 << 20, StreamKey key = kKey) {
    ASSERT_TRUE(outbox_.on_credit({key.group, key.stream, sequence, capacity, 0}));
  }
  // Everything that may go now, by one path; each chunk with the reason it went for.
  std::vector<std::pair<ChunkId, SendReason>> transmit(PathId path, Epoch epoch = {1}) {
    std::vector<std::pair<ChunkId, SendReason>> went;
    while (outbox_.next_length(1, limits_.chunk_bytes)) {
      SendReason reason{};
      OutChunk& chunk = outbox_.take_next(reason);
      outbox_.sent(chunk, {path, epoch, chunk.copies_made, chunk.length, 0});
      went.emplace_back(chunk.id, reason);
    }
    return went;
  }
  static IntervalSet have(std::vector<std::uint64_t> numbers) {
    IntervalSet set;
    for (const std::uint64_t number : numbers) set.insert(number);
    return set;
  }
  bool receipt(std::vector<std::uint64_t> numbers) { return outbox_.on_receipt(have(std::move(numbers)), forgotten_); }
  std::vector<Completion> take_done() { return std::exchange(outbox_.completions(), {}); }

  using Went = std::vector<std::pair<ChunkId, SendReason>>;
  SessionLimits limits_;
  Rules rules_;
  Outbox outbox_{limits_, rules_};
  std::vector<Outbox::Receipted> forgotten_;
  std::deque<Bytes> memory_;
  std::deque<HostRegion> regions_;
};

TEST_F(OutboxTest, AMessageWaitsForItsCreditAndForItsGroup) {
  Outbox fresh(limits_, rules_);
  fresh.open_group(kGroup);
  Bytes bytes(1000);
  HostRegion region(bytes.data(), bytes.size());
  ASSERT_TRUE(fresh.send(kKey, {&region, 0, 1000}, 0, 1));
  EXPECT_FALSE(fresh.next_length(1, limits_.chunk_bytes)) << "no credit";
  ASSERT_TRUE(fresh.on_credit({kGroup, kKey.stream, 0, 1000, 0}));
  EXPECT_FALSE(fresh.next_length(1, limits_.chunk_bytes)) << "the peer has not proven the group";
  fresh.on_group_joined(kGroup);
  EXPECT_EQ(fresh.next_length(1, limits_.chunk_bytes), 1000u);
}

TEST_F(OutboxTest, AStrangeGroupIsMisuseAndAFullStreamIsBusy) {
  Bytes bytes(10);
  HostRegion region(bytes.data(), bytes.size());
  EXPECT_EQ(fault_of(outbox_.send({{8}, {1}}, {&region, 0, 10}, 0, 1)), Fault::kGroupEnded);
  limits_.stream_operations_max = 2;
  send(1000);
  send(1000);
  EXPECT_EQ(fault_of(outbox_.send(kKey, {&region, 0, 10}, 0, 3)), Fault::kBusy);
  credit(0);
  credit(1);
  EXPECT_FALSE(outbox_.on_credit({kGroup, kKey.stream, 2, 10, 0})) << "more than a peer may give";
}

TEST_F(OutboxTest, ChunksCoverAMessageOnceInOrder) {
  for (const std::size_t bytes : {0u, 1u, 8192u, 16384u, 16385u, 100'000u}) {
    const std::uint64_t sequence = send(bytes);
    credit(sequence);
    std::uint64_t covered = 0;
    const Went went = transmit(kLow);
    for (const auto& [id, reason] : went) {
      const OutChunk& chunk = *outbox_.find(id);
      EXPECT_EQ(reason, SendReason::kFirst);
      EXPECT_EQ(chunk.offset, covered);
      const DataBody body = outbox_.describe(chunk);
      EXPECT_EQ(body.sequence, sequence);
      EXPECT_EQ(body.total, bytes);
      EXPECT_EQ(body.tag, 40 + memory_.size());
      const MemoryRef payload = outbox_.payload(chunk);
      EXPECT_EQ(payload.length, chunk.length);
      EXPECT_EQ(payload.offset, covered) << "of the caller's memory, or of its copy";
      covered += chunk.length;
    }
    EXPECT_EQ(covered, bytes);
    EXPECT_EQ(went.size(), std::max<std::size_t>(1, (bytes + limits_.chunk_bytes - 1) / limits_.chunk_bytes));
  }
}

TEST_F(OutboxTest, ALargeMessageIsDoneWithItsLastReceiptAndASmallOneAtOnce) {
  send(20'000);
  credit(0);
  ASSERT_EQ(transmit(kLow).size(), 2u);
  EXPECT_TRUE(take_done().empty());
  ASSERT_TRUE(receipt({2}));
  EXPECT_TRUE(take_done().empty()) << "half of it is missing";
  EXPECT_FALSE(outbox_.idle());
  ASSERT_TRUE(receipt({1, 2}));
  const auto done = take_done();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(done[0].status);
  EXPECT_EQ(done[0].token, 1u);
  EXPECT_EQ(done[0].length, 20'000u);
  EXPECT_TRUE(outbox_.idle());
  send(100);
  EXPECT_EQ(take_done().size(), 1u) << "copied";
  EXPECT_FALSE(outbox_.idle()) << "but not yet there";
}

TEST_F(OutboxTest, WhatWasCopiedNoLongerReadsTheCallersMemory) {
  send(100);
  const Bytes before = memory_.back();
  std::ranges::fill(memory_.back(), std::byte{0});
  credit(0);
  ASSERT_EQ(transmit(kLow).size(), 1u);
  Bytes sent(100);
  const MemoryRef payload = outbox_.payload(*outbox_.find({1}));
  payload.region->read(payload.offset, sent);
  EXPECT_EQ(sent, before);
}

TEST_F(OutboxTest, AReceiptForgetsEveryCopyOnceAndOfWhatWasNeverSentIsRefused) {
  send(1000);
  credit(0);
  transmit(kLow);
  OutChunk& chunk = *outbox_.find({1});
  outbox_.sent(chunk, {kHigh, {1}, chunk.copies_made, chunk.length, 0});  // a hedge
  EXPECT_FALSE(receipt({1, 2}));
  ASSERT_TRUE(receipt({1}));
  ASSERT_EQ(forgotten_.size(), 2u);
  EXPECT_FALSE(forgotten_[0].only_copy);
  ASSERT_TRUE(receipt({1}));
  EXPECT_EQ(forgotten_.size(), 2u);
  EXPECT_EQ(outbox_.find({1}), nullptr);
}

TEST_F(OutboxTest, AFenceReplaysExactlyWhatOnlyThatPathCarried) {
  send(4 * limits_.chunk_bytes);
  credit(0);
  ASSERT_EQ(transmit(kHigh).size(), 4u);
  OutChunk& hedged = *outbox_.find({2});
  outbox_.sent(hedged, {kLow, {1}, hedged.copies_made, hedged.length, 0});
  ASSERT_TRUE(receipt({1}));
  outbox_.on_path_fenced(kHigh, {1});
  EXPECT_EQ(transmit(kLow, {1}), (Went{{{3}, SendReason::kReplay}, {{4}, SendReason::kReplay}}));
  outbox_.on_path_fenced(kHigh, {1});
  EXPECT_TRUE(transmit(kLow).empty()) << "once";
  outbox_.on_path_fenced(kLow, {0});
  EXPECT_TRUE(transmit(kLow).empty()) << "these copies went in a later epoch";
  ASSERT_TRUE(receipt({1, 2, 3, 4}));
  EXPECT_TRUE(outbox_.idle());
}

TEST_F(OutboxTest, AChunkGoesAgainWhenItsLastCopyIsLost) {
  send(1000);
  credit(0);
  transmit(kLow);
  OutChunk& chunk = *outbox_.find({1});
  outbox_.sent(chunk, {kHigh, {1}, chunk.copies_made, chunk.length, 0});
  ASSERT_TRUE(outbox_.on_copy_lost({{1}, 0}));
  EXPECT_FALSE(outbox_.next_length(1, limits_.chunk_bytes)) << "another copy may land";
  EXPECT_FALSE(outbox_.on_copy_lost({{1}, 0})) << "it was lost before";
  ASSERT_TRUE(outbox_.on_copy_lost({{1}, 1}));
  EXPECT_EQ(transmit(kLow), (Went{{{1}, SendReason::kResend}}));
  ASSERT_TRUE(receipt({1}));
  EXPECT_FALSE(outbox_.on_copy_lost({{1}, 2})) << "a receipt says that it landed";
}

TEST_F(OutboxTest, WhatWasReceiptedWhileItWaitedDoesNotGoAgain) {
  send(2 * limits_.chunk_bytes);
  credit(0);
  ASSERT_EQ(transmit(kLow).size(), 2u);
  outbox_.on_path_fenced(kLow, {1});
  ASSERT_TRUE(receipt({2}));
  EXPECT_EQ(transmit(kHigh), (Went{{{1}, SendReason::kReplay}}));
}

TEST_F(OutboxTest, WhatCouldNotBePostedIsFirstInLineAgain) {
  send(2 * limits_.chunk_bytes);
  credit(0);
  ASSERT_TRUE(outbox_.next_length(1, limits_.chunk_bytes));
  SendReason reason{};
  OutChunk& chunk = outbox_.take_next(reason);
  outbox_.put_back(chunk, reason);
  EXPECT_EQ(transmit(kLow), (Went{{{1}, SendReason::kFirst}, {{2}, SendReason::kFirst}}));
}

TEST_F(OutboxTest, EagerMessagesStayWithinTheGrant) {
  limits_.eager_message_max = 1000;
  const std::uint64_t cost = eager_charge(1000);
  outbox_.on_eager_grant(2 * cost);
  for (int i = 0; i < 4; ++i) send(1000);
  EXPECT_EQ(transmit(kLow).size(), 2u);
  EXPECT_NE(outbox_.find({1})->flags & DataBody::kEager, 0);
  outbox_.on_eager_released(3 * cost);
  EXPECT_TRUE(transmit(kLow).empty()) << "nobody can release more than was used";
  outbox_.on_eager_released(cost);
  EXPECT_EQ(transmit(kLow).size(), 1u);
  credit(3);
  EXPECT_EQ(transmit(kLow).size(), 1u) << "a receive was posted for it";
  EXPECT_EQ(outbox_.find({4})->flags & DataBody::kEager, 0);
}

TEST_F(OutboxTest, StreamsTakeTurnsAndOneMayBeSkipped) {
  const StreamKey other{kGroup, {2}};
  send(2 * limits_.chunk_bytes, kKey, NicId{0});
  send(2 * limits_.chunk_bytes, other, NicId{1});
  credit(0);
  credit(0, 1 << 20, other);
  ASSERT_TRUE(outbox_.next_length(1, limits_.chunk_bytes));
  EXPECT_EQ(outbox_.next_nic(), NicId{0});
  outbox_.skip_next();
  ASSERT_TRUE(outbox_.next_length(1, limits_.chunk_bytes));
  EXPECT_EQ(outbox_.next_nic(), NicId{1});
  std::vector<StreamId> order;
  for (const auto& [id, reason] : transmit(kLow)) order.push_back(outbox_.find(id)->key.stream);
  EXPECT_EQ(order, (std::vector<StreamId>{{2}, {1}, {2}, {1}}));
}

TEST_F(OutboxTest, AMessageLongerThanItsReceiveIsMisuseAndSendsNoPayload) {
  send(1000);
  credit(0, 999);
  EXPECT_EQ(outbox_.next_length(1, limits_.chunk_bytes), 0u);
  ASSERT_EQ(transmit(kLow).size(), 1u);
  EXPECT_EQ(outbox_.payload(*outbox_.find({1})).length, 0u);
  ASSERT_TRUE(receipt({1}));
  const auto done = take_done();
  ASSERT_EQ(done.size(), 1u);
  ASSERT_FALSE(done[0].status);
  EXPECT_EQ(done[0].status.error().fault, Fault::kCallsDiffer);
}

TEST_F(OutboxTest, AnEndedGroupLeavesOnlyNumbersBehind) {
  send(2 * limits_.chunk_bytes);
  send(50);
  credit(0);
  ASSERT_EQ(transmit(kLow).size(), 2u);
  take_done();
  const Outbox::Ended ended = outbox_.end_group(kGroup, kOver);
  ASSERT_EQ(ended.copies.size(), 2u) << "their memory must not be read any more";
  EXPECT_EQ(ended.memory.size(), 1u) << "the copy of the small one";
  const auto done = take_done();
  ASSERT_EQ(done.size(), 1u) << "the small one was done before";
  ASSERT_FALSE(done[0].status);
  EXPECT_EQ(done[0].status.error().what, "over");
  for (const Outbox::CopyOut& out : ended.copies) outbox_.on_copy_lost({out.chunk, out.copy.number});
  EXPECT_EQ(outbox_.next_length(1, limits_.chunk_bytes), 0u) << "the number goes again, without payload";
  for (const auto& [id, reason] : transmit(kHigh)) {
    EXPECT_NE(outbox_.describe(*outbox_.find(id)).flags & DataBody::kVoid, 0);
    EXPECT_EQ(outbox_.payload(*outbox_.find(id)).region, nullptr);
  }
  EXPECT_FALSE(outbox_.idle());
  ASSERT_TRUE(receipt({1, 2}));
  EXPECT_TRUE(outbox_.idle());
}

TEST_F(OutboxTest, TheWindowOfChunksIsBounded) {
  limits_.chunk_window = 3;
  send(10 * limits_.chunk_bytes);
  credit(0);
  EXPECT_EQ(transmit(kLow).size(), 3u);
  ASSERT_TRUE(receipt({2, 3}));
  EXPECT_TRUE(transmit(kLow).empty()) << "the first is not in, so the others do not count";
  ASSERT_TRUE(receipt({1, 2, 3}));
  EXPECT_EQ(transmit(kLow).size(), 3u);
}

TEST_F(OutboxTest, TheOldestChunkOnAPathIsTheOneToHedge) {
  send(3 * limits_.chunk_bytes);
  credit(0);
  transmit(kLow);
  EXPECT_EQ(outbox_.oldest_on(kLow, {1}), ChunkId{1});
  EXPECT_EQ(outbox_.oldest_on(kLow, {2}), std::nullopt);
  ASSERT_TRUE(receipt({1}));
  EXPECT_EQ(outbox_.oldest_on(kLow, {1}), ChunkId{2});
}

}  // namespace
}  // namespace r2ccl
