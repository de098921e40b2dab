// Goal: what is posted goes out whole, in the promised order and once; what is forgotten is read no more.
// Method: a sender writes into a stream in memory whose room the test chooses; frames are read back by a reader.

#include "transport/stream/frame_sender.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "testing/fake_provider.h"
#include "testing/link_testing.h"
#include "testing/memory_stream.h"
#include "transport/stream/frame_reader.h"

namespace r2ccl {
namespace {

std::optional<Fault> fault_of(const Result<Ticket>& posted) {
  return posted ? std::nullopt : std::optional(posted.error().fault);
}

class FrameSenderTest : public testing::Test {
 protected:
  Ticket post_data(std::uint8_t type, std::size_t bytes) {
    Bytes& content = memory_.emplace_back(pattern(bytes, type));
    regions_.emplace_back(content.data(), content.size());
    return sender_.post(data_frame(type, to_bytes("body"), regions_.back())).value();
  }
  void post_control(std::uint8_t type) { ASSERT_TRUE(sender_.post(control_frame(type, to_bytes("body")))); }
  MemoryPipe& wire() { return *pair_.a_to_b; }
  Io flush(std::size_t bytes_max = 1 << 24) { return sender_.flush(*pair_.a, bytes_max); }
  // What is on the wire, as letters.
  std::string take() {
    reader_.read(*pair_.b, link_, sink_, SIZE_MAX, FrameReader::Until::kAll);
    std::string types;
    for (const auto& frame : std::exchange(sink_.frames, {})) {
      types += static_cast<char>(frame.header.type);
      EXPECT_EQ(frame.body, to_bytes("body"));
      EXPECT_NE(frame.payload, Payload::kCorrupt);
      if (frame.payload == Payload::kPlaced) {
        EXPECT_EQ(frame.bytes, pattern(frame.bytes.size(), frame.header.type)) << types;
      }
    }
    return types;
  }
  // Opens the wire.
  std::string take_all() {
    wire().capacity = MemoryPipe::kNoLimit;
    std::string types = take();
    while (!sender_.empty()) {
      flush();
      types += take();
    }
    return types;
  }

  StreamLimits limits_;
  FrameSender sender_{limits_};
  MemoryPair pair_;
  FakeLink link_{std::make_shared<FakeWire>(), LinkState::kUp};
  RecordingSink sink_;
  FrameReader reader_;
  std::deque<Bytes> memory_;
  std::deque<HostRegion> regions_;
};

TEST_F(FrameSenderTest, FramesWithoutPayloadGoFirstAndEachKindInItsOrder) {
  post_data('1', 1000);
  post_control('a');
  post_data('2', 1000);
  post_control('b');
  flush();
  EXPECT_EQ(take(), "ab12");
  EXPECT_TRUE(sender_.empty());
}

TEST_F(FrameSenderTest, NothingComesBetweenTheTwoPartsOfAFrame) {
  for (const std::size_t room : {1u, 20u, 40u, 500u, 1000u}) {
    wire().capacity = room;
    post_data('1', 1000);
    post_data('2', 1000);
    flush();
    post_control('a');
    EXPECT_EQ(take_all(), "1a2") << room;
  }
}

TEST_F(FrameSenderTest, QueuedBytesAreWhatHasNotBeenWritten) {
  EXPECT_EQ(sender_.queued_bytes(), 0u);
  post_data('1', 1000);
  post_control('a');
  const std::size_t queued = sender_.queued_bytes();
  EXPECT_EQ(queued, whole_lines(kHeaderBytes + 4 + 1000) + whole_lines(kHeaderBytes + 4));
  wire().capacity = 100;
  const Io io = flush();
  EXPECT_EQ(io.bytes, 100u);
  EXPECT_TRUE(io.would_block);
  EXPECT_EQ(sender_.queued_bytes(), queued - 100);
  take_all();
  EXPECT_EQ(sender_.queued_bytes(), 0u);
}

TEST_F(FrameSenderTest, AFlushEndsNearTheBytesAskedFor) {
  for (int i = 0; i < 8; ++i) post_data('1', 512 << 10);
  const Io io = flush(1);
  EXPECT_GE(io.bytes, 512u << 10);
  EXPECT_LT(io.bytes, 3u << 20);
  EXPECT_FALSE(sender_.empty());
  EXPECT_EQ(take_all(), "11111111");
}

TEST_F(FrameSenderTest, QueuesAreBoundedEachByItsOwnLimit) {
  StreamLimits limits;
  limits.data_queue_frames = 2;
  limits.control_queue_bytes = 128;
  FrameSender sender(limits);
  Bytes content = pattern(10);
  HostRegion region(content.data(), content.size());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(sender.post(data_frame('1', {}, region)));
    ASSERT_TRUE(sender.post(control_frame('a', {})));
  }
  EXPECT_EQ(fault_of(sender.post(data_frame('1', {}, region))), Fault::kBusy);
  EXPECT_EQ(fault_of(sender.post(control_frame('a', {}))), Fault::kBusy);
  sender.flush(*pair_.a, SIZE_MAX);
  EXPECT_TRUE(sender.post(data_frame('1', {}, region)));
  EXPECT_TRUE(sender.post(control_frame('a', {})));
}

TEST_F(FrameSenderTest, WhatIsTooLongOrNotWhatItSaysIsMisuse) {
  Bytes content(kPayloadBytesMax + 1);
  HostRegion region(content.data(), content.size());
  EXPECT_EQ(fault_of(sender_.post(data_frame('1', {}, region))), Fault::kMisuse);
  EXPECT_EQ(fault_of(sender_.post(control_frame('a', Bytes(kBodyBytesMax + 1)))), Fault::kMisuse);
  OutFrame frame = data_frame('1', {}, region);
  frame.header.payload_bytes = 10;
  EXPECT_EQ(fault_of(sender_.post(frame)), Fault::kMisuse);
  EXPECT_TRUE(sender_.empty());
}

TEST_F(FrameSenderTest, ForgottenBeforeItsTurnAFrameNeverGoesOut) {
  post_data('1', 1000);
  const Ticket second = post_data('2', 1000);
  post_data('3', 1000);
  EXPECT_FALSE(sender_.forget(second));
  EXPECT_EQ(take_all(), "13");
  EXPECT_TRUE(sender_.forget(second)) << "not in the queue: for all the sender knows it went out";
}

TEST_F(FrameSenderTest, ForgottenHalfSentItsRestIsTrueAndItsMemoryIsReadNoMore) {
  for (const std::size_t room : {1u, 30u, 33u, 500u, 1031u}) {
    wire().capacity = room;
    const Ticket ticket = post_data('1', 1000);
    flush();
    EXPECT_TRUE(sender_.forget(ticket));
    std::ranges::fill(memory_.back(), std::byte{0xEE});
    EXPECT_EQ(take_all(), "1") << room;
  }
}

TEST_F(FrameSenderTest, APayloadIsReadWhenItIsSentAndNotWhenItIsPosted) {
  wire().capacity = 0;
  post_data('1', 1000);
  std::ranges::copy(pattern(1000, '2'), memory_.back().begin());
  wire().capacity = MemoryPipe::kNoLimit;
  flush();
  reader_.read(*pair_.b, link_, sink_, SIZE_MAX, FrameReader::Until::kAll);
  ASSERT_EQ(sink_.frames.size(), 1u);
  EXPECT_EQ(sink_.frames[0].payload, Payload::kPlaced) << "the checksum is that of what went";
  EXPECT_EQ(sink_.frames[0].bytes, pattern(1000, '2'));
}

TEST_F(FrameSenderTest, MemoryTheProcessorCanNotAddressGoesOutInPieces) {
  UnmappedRegion region(pattern(200'000, 'u'));
  ASSERT_TRUE(sender_.post(data_frame('u', to_bytes("body"), region)));
  post_data('2', 10);
  EXPECT_EQ(take_all(), "u2");
}

TEST_F(FrameSenderTest, ClearedItHoldsNothing) {
  wire().capacity = 0;
  const Ticket ticket = post_data('1', 1000);
  post_control('a');
  sender_.clear();
  EXPECT_TRUE(sender_.empty());
  EXPECT_EQ(sender_.queued_bytes(), 0u);
  EXPECT_TRUE(sender_.forget(ticket));
  EXPECT_EQ(take_all(), "");
}

TEST_F(FrameSenderTest, ABrokenStreamSaysWhy) {
  post_control('a');
  pair_.b->close(true);
  EXPECT_EQ(flush().cause, Cause::kReset);
}

}  // namespace
}  // namespace r2ccl
