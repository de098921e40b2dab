// What a StreamLink puts on the wire, and when.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "testing/link_testing.h"
#include "testing/memory_stream.h"
#include "transport/stream/stream_link.h"

namespace r2ccl {
namespace {

const Instant kNow{};

struct Sending {
  explicit Sending(const StreamLimits& limits = {})
      : a(std::make_unique<StreamLink>(std::move(pair.a), Hello{}, ProcessId{2}, limits)),
        b(std::make_unique<StreamLink>(std::move(pair.b), Hello{}, ProcessId{1}, limits)) {}

  MemoryPipe& wire() { return *pair.a_to_b; }
  void step_a() { a->step(kNow, at_a); }
  // Opens the wire and lets everything through.
  void run() {
    wire().capacity = MemoryPipe::kNoLimit;
    for (bool moved = true; moved;) {
      moved = a->step(kNow, at_a);
      moved |= b->step(kNow, at_b);
    }
  }
  std::string types() const {
    std::string out;
    for (const auto& frame : at_b.frames) out += static_cast<char>(frame.header.type);
    return out;
  }

  MemoryPair pair;
  std::unique_ptr<StreamLink> a;
  std::unique_ptr<StreamLink> b;
  RecordingSink at_a;
  RecordingSink at_b;
};

struct Payloads {
  explicit Payloads(std::size_t size = 1000) : bytes(pattern(size)), region(bytes.data(), bytes.size()) {}
  Bytes bytes;
  HostRegion region;
};

TEST(StreamLinkSending, FramesWithoutPayloadOvertakeAtTheBoundary) {
  Sending link;
  Payloads p;
  link.wire().capacity = 500;  // the first data frame is begun and stuck
  ASSERT_TRUE(link.a->post(data_frame('1', {}, p.region)));
  ASSERT_TRUE(link.a->post(data_frame('2', {}, p.region)));
  link.step_a();
  ASSERT_TRUE(link.a->post(control_frame('c', {})));
  ASSERT_TRUE(link.a->post(data_frame('3', {}, p.region)));
  ASSERT_TRUE(link.a->post(control_frame('d', {})));
  link.run();
  EXPECT_EQ(link.types(), "1cd23");
}

TEST(StreamLinkSending, OrderHoldsForEveryWriteSize) {
  for (std::size_t size = 1; size < 200; ++size) {
    Sending link;
    Payloads p(60);
    link.wire().write_bytes_max = size;
    for (const char type : {'1', '2', '3'})
      ASSERT_TRUE(link.a->post(data_frame(static_cast<std::uint8_t>(type), to_bytes("b"), p.region)));
    link.step_a();
    ASSERT_TRUE(link.a->post(control_frame('c', to_bytes("control"))));
    link.run();
    std::string data = link.types();
    EXPECT_NE(data.find('c'), std::string::npos);
    std::erase(data, 'c');
    EXPECT_EQ(data, "123") << "write size " << size;
    for (const auto& frame : link.at_b.frames) {
      if (frame.header.type != 'c') {
        EXPECT_EQ(frame.bytes, p.bytes);
      }
    }
  }
}

TEST(StreamLinkSending, ABacklogOfSmallFramesIsOneWrite) {
  Sending link;
  Payloads p(8);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(link.a->post(control_frame('c', to_bytes("body"))));
    ASSERT_TRUE(link.a->post(data_frame('d', to_bytes("body"), p.region)));
  }
  link.step_a();
  EXPECT_EQ(link.wire().writes, 1u);
  EXPECT_EQ(link.a->progress(kNow).queued_bytes, link.wire().bytes.size()) << "nothing is queued above the stream";
}

TEST(StreamLinkSending, AWriteEndsWithTheFrameThatFillsIt) {
  for (const bool checksum : {false, true}) {
    StreamLimits limits;
    limits.checksum = checksum;
    Sending link(limits);
    Payloads p(512 * 1024);
    ASSERT_TRUE(link.a->post(control_frame('c', to_bytes("body"))));
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(link.a->post(data_frame('d', to_bytes("body"), p.region)));
    link.step_a();
    EXPECT_EQ(link.wire().writes, checksum ? 6u : 3u);
    link.run();
    EXPECT_EQ(link.types(), "cdddddd");
  }
}

TEST(StreamLinkSending, LargePayloadsLieInTheirLinesAsInMemory) {
  constexpr std::size_t kLength = 20'000;
  StreamLimits limits;
  limits.align_payloads = true;
  Payloads p(kLength + 2 * kFrameAlignment);
  for (const std::size_t body_bytes : {0u, 1u, 59u, 64u}) {
    const Bytes body(body_bytes);  // frames only look at it
    for (std::size_t offset = 0; offset < 2 * kFrameAlignment; ++offset) {
      Sending link(limits);
      OutFrame frame = data_frame('d', body, p.region);
      frame.payload.offset = offset;
      frame.payload.length = frame.header.payload_bytes = kLength + offset % 3;
      ASSERT_TRUE(link.a->post(control_frame('c', body)));
      ASSERT_TRUE(link.a->post(frame));
      link.step_a();
      const Bytes wire(link.wire().bytes.begin(), link.wire().bytes.end());
      const auto payload = ByteView(p.bytes).subspan(offset, frame.payload.length);
      const auto at = std::ranges::search(wire, payload).begin() - wire.begin();
      const auto address = reinterpret_cast<std::uintptr_t>(payload.data());
      EXPECT_EQ(static_cast<std::size_t>(at) % kFrameAlignment, address % kFrameAlignment) << "offset " << offset;
      EXPECT_EQ(wire.size() % kFrameAlignment, 0u);
      link.run();
      ASSERT_EQ(link.types(), "cd");
      EXPECT_TRUE(std::ranges::equal(link.at_b.frames[1].bytes, payload));
    }
  }
}

TEST(StreamLinkSending, SmallPayloadsEndTheirFrames) {
  for (const bool align : {false, true}) {
    for (std::size_t length = 1; length < 3 * kFrameAlignment; ++length) {
      StreamLimits limits;
      limits.align_payloads = align;
      Sending link(limits);
      Payloads p(length);
      ASSERT_TRUE(link.a->post(data_frame('d', to_bytes("body"), p.region)));
      link.step_a();
      const auto& wire = link.wire().bytes;
      ASSERT_EQ(wire.size(), whole_lines(kHeaderBytes + 4 + length));
      EXPECT_TRUE(std::equal(p.bytes.rbegin(), p.bytes.rend(), wire.rbegin())) << "length " << length;
    }
  }
}

TEST(StreamLinkSending, APingPongIsOneWriteAndOneReadPerDirection) {
  Sending link;
  Payloads p(8);
  link.at_b.at_frame = [&](Link& b, const RecordingSink::Frame&) {
    ASSERT_TRUE(b.post(data_frame('o', to_bytes("body"), p.region)));
  };
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(link.a->post(data_frame('i', to_bytes("body"), p.region)));
    link.a->step(kNow, link.at_a);
    link.b->step(kNow, link.at_b);
    link.a->step(kNow, link.at_a);
  }
  EXPECT_EQ(link.at_a.frames.size(), 10u);
  EXPECT_EQ(link.pair.a_to_b->writes, 10u);
  EXPECT_EQ(link.pair.a_to_b->reads, 10u);
  EXPECT_EQ(link.pair.b_to_a->writes, 10u);
  EXPECT_EQ(link.pair.b_to_a->reads, 10u);
}

TEST(StreamLinkSending, AnIdleStepTouchesTheStreamNotAtAll) {
  Sending link;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(link.a->step(kNow, link.at_a));
  EXPECT_EQ(link.pair.a_to_b->writes + link.pair.b_to_a->reads, 0u);
}

TEST(StreamLinkSending, QueuesAreBoundedByNamedLimitsAndFreeAgain) {
  StreamLimits limits;
  limits.control_queue_bytes = 10 * whole_lines(kHeaderBytes);
  limits.data_queue_frames = 5;
  Sending link(limits);
  Payloads p;
  link.wire().capacity = 0;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(link.a->post(control_frame('c', {})));
  EXPECT_EQ(link.a->post(control_frame('c', {})).error().fault, Fault::kBusy);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(link.a->post(data_frame('d', {}, p.region)));
  EXPECT_EQ(link.a->post(data_frame('d', {}, p.region)).error().fault, Fault::kBusy);
  EXPECT_EQ(link.a->progress(kNow).queued_bytes,
            10 * whole_lines(kHeaderBytes) + 5 * whole_lines(kHeaderBytes + p.bytes.size()));
  link.wire().capacity = 3 * whole_lines(kHeaderBytes) + 1;  // part of the queue leaves: its room is usable
  link.step_a();
  ASSERT_TRUE(link.a->post(control_frame('e', {})));
  link.run();
  EXPECT_EQ(link.types(), "cccccccccceddddd");
  EXPECT_TRUE(link.a->post(data_frame('d', {}, p.region)));
}

TEST(StreamLinkSending, MisuseGetsASentence) {
  Sending link;
  Payloads p;
  EXPECT_EQ(link.a->post(control_frame('c', Bytes(kBodyBytesMax + 1))).error().fault, Fault::kMisuse);
  OutFrame frame = data_frame('d', {}, p.region);
  frame.payload.length -= 1;
  EXPECT_EQ(link.a->post(frame).error().fault, Fault::kMisuse);
  frame = data_frame('d', {}, p.region);
  frame.header.payload_bytes = kPayloadBytesMax + 1;
  frame.payload.length = kPayloadBytesMax + 1;
  EXPECT_EQ(link.a->post(frame).error().fault, Fault::kMisuse);
}

TEST(StreamLinkSending, TheLargestFrameAndUnmappedMemoryArriveWhole) {
  for (const bool unmapped : {false, true}) {
    Sending link;
    Bytes bytes = pattern(kPayloadBytesMax);
    HostRegion host(bytes.data(), bytes.size());
    UnmappedRegion device(bytes);
    link.at_b.memory = unmapped ? RecordingSink::Memory::kUnmapped : RecordingSink::Memory::kHost;
    link.wire().write_bytes_max = 100'001;
    ASSERT_TRUE(link.a->post(data_frame('d', Bytes(kBodyBytesMax), unmapped ? static_cast<Region&>(device) : host)));
    ASSERT_TRUE(link.a->post(data_frame('e', {}, unmapped ? static_cast<Region&>(device) : host)));
    link.run();
    ASSERT_EQ(link.at_b.frames.size(), 2u);
    for (const auto& frame : link.at_b.frames) {
      EXPECT_EQ(frame.payload, Payload::kPlaced);
      EXPECT_TRUE(frame.bytes == bytes);
    }
  }
}

TEST(StreamLinkForgetting, AFrameNotBegunNeverGoesOut) {
  for (std::size_t victim = 0; victim < 20; ++victim) {
    Sending link;
    Payloads p;
    std::string expected;
    std::vector<Ticket> tickets;
    for (std::size_t i = 0; i < 20; ++i) {
      tickets.push_back(*link.a->post(data_frame(static_cast<std::uint8_t>('a' + i), {}, p.region)));
      if (i != victim) expected += static_cast<char>('a' + i);
    }
    EXPECT_FALSE(link.a->forget(tickets[victim]));
    EXPECT_EQ(link.a->progress(kNow).queued_bytes, 19 * whole_lines(kHeaderBytes + p.bytes.size()));
    link.run();
    EXPECT_EQ(link.types(), expected);
  }
}

TEST(StreamLinkForgetting, AFrameHalfSentIsFinishedFromACopyWhereverItStood) {
  const std::size_t whole = whole_lines(kHeaderBytes + 4 + 1000);
  for (std::size_t sent = 1; sent < whole; sent += sent < 40 ? 1 : 97) {
    for (const bool unmapped : {false, true}) {
      Sending link;
      Payloads p;
      UnmappedRegion device(p.bytes);
      Region& region = unmapped ? static_cast<Region&>(device) : p.region;
      link.wire().capacity = sent;
      const Ticket ticket = *link.a->post(data_frame('1', to_bytes("body"), region));
      Payloads next;
      ASSERT_TRUE(link.a->post(data_frame('2', {}, next.region)));
      link.step_a();
      EXPECT_TRUE(link.a->forget(ticket));
      std::ranges::fill(p.bytes, std::byte{0x77});  // the owner uses its memory again
      link.run();
      ASSERT_EQ(link.types(), "12");
      EXPECT_EQ(link.at_b.frames[0].bytes, pattern(1000)) << "sent " << sent;
      EXPECT_EQ(link.at_b.frames[0].payload, Payload::kPlaced);
      EXPECT_EQ(link.at_b.frames[1].payload, Payload::kPlaced);
    }
  }
}

TEST(StreamLinkForgetting, AFrameAlreadySentSaysSo) {
  Sending link;
  Payloads p;
  const Ticket ticket = *link.a->post(data_frame('1', {}, p.region));
  link.run();
  EXPECT_TRUE(link.a->forget(ticket));
}

TEST(StreamLinkForgetting, ALargeRestKeepsTheStreamInStep) {
  Sending link;
  Payloads p(kPayloadBytesMax);
  link.wire().capacity = 100;
  const Ticket ticket = *link.a->post(data_frame('1', {}, p.region));
  link.step_a();
  EXPECT_TRUE(link.a->forget(ticket));
  ASSERT_TRUE(link.a->post(control_frame('c', {})));
  link.run();
  EXPECT_EQ(link.types(), "1c");
}

TEST(StreamLinkClosing, CloseSendsWhatGoesAndEndsInOrder) {
  Sending link;
  ASSERT_TRUE(link.a->post(control_frame('b', to_bytes("bye"))));
  link.a->close();
  EXPECT_EQ(link.a->state(), LinkState::kDown);
  while (link.b->step(kNow, link.at_b)) {
  }
  EXPECT_EQ(link.types(), "b");
  EXPECT_EQ(link.b->cause(), Cause::kClosed);
  link.a->close();
  link.a->drain_and_close(kNow, link.at_a);
  EXPECT_EQ(link.a->progress(kNow).queued_bytes, 0u);
}

TEST(StreamLinkClosing, NoMemoryIsReadAfterTheFence) {
  Sending link;
  auto region = std::make_unique<UnmappedRegion>(pattern(1000));
  link.wire().capacity = 10;
  ASSERT_TRUE(link.a->post(data_frame('1', {}, *region)));
  link.step_a();
  link.a->drain_and_close(kNow, link.at_a);
  region.reset();
  link.wire().capacity = MemoryPipe::kNoLimit;
  EXPECT_FALSE(link.a->step(kNow, link.at_a));
  EXPECT_EQ(link.wire().bytes.size(), 10u);
}

}  // namespace
}  // namespace r2ccl
