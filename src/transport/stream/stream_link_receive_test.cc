// What a StreamLink makes of the bytes that arrive, however they arrive.

#include <gtest/gtest.h>

#include <string>

#include "testing/link_testing.h"
#include "testing/memory_stream.h"
#include "transport/stream/stream_link.h"

namespace r2ccl {
namespace {

const Instant kNow{};

// Two links that trust each other, and what lies between them.
struct Linked {
  explicit Linked(const StreamLimits& limits = {})
      : a(std::make_unique<StreamLink>(std::move(pair.a), Hello{}, ProcessId{2}, limits)),
        b(std::make_unique<StreamLink>(std::move(pair.b), Hello{}, ProcessId{1}, limits)) {}

  // Until nothing moves.
  void run() {
    for (bool moved = true; moved;) {
      moved = a->step(kNow, at_a);
      moved |= b->step(kNow, at_b);
    }
  }
  void run_b() {
    while (b->step(kNow, at_b)) {
    }
  }

  MemoryPair pair;
  std::unique_ptr<StreamLink> a;
  std::unique_ptr<StreamLink> b;
  RecordingSink at_a;
  RecordingSink at_b;
};

// Three frames whose bytes every split below cuts: a control frame, a data frame, a control frame without body.
Bytes three_frames(Bytes& payload) {
  Linked writer;
  HostRegion region(payload.data(), payload.size());
  EXPECT_TRUE(writer.a->post(data_frame(2, to_bytes("data body"), region)));
  writer.a->step(kNow, writer.at_a);
  EXPECT_TRUE(writer.a->post(control_frame(1, to_bytes("control body"))));
  EXPECT_TRUE(writer.a->post(control_frame(3, {})));
  writer.a->step(kNow, writer.at_a);
  const auto& wire = writer.pair.a_to_b->bytes;
  return {wire.begin(), wire.end()};
}

// Where the payload of the first of them begins: it ends its frame.
std::size_t first_payload(const Bytes& payload) {
  return whole_lines(kHeaderBytes + 9 + payload.size()) - payload.size();
}

void put(MemoryPipe& pipe, ByteView bytes) {
  pipe.bytes.insert(pipe.bytes.end(), bytes.begin(), bytes.end());
}

void expect_three(const RecordingSink& sink, const Bytes& payload, const std::string& where) {
  ASSERT_EQ(sink.frames.size(), 3u) << where;
  EXPECT_EQ(sink.frames[0].header.type, 2) << where;
  EXPECT_EQ(sink.frames[0].header.epoch, Epoch{7}) << where;
  EXPECT_EQ(sink.frames[0].header.path, (PathId{{1}, {2}})) << where;
  EXPECT_EQ(sink.frames[0].body, to_bytes("data body")) << where;
  EXPECT_EQ(sink.frames[0].payload, Payload::kPlaced) << where;
  EXPECT_EQ(sink.frames[0].bytes, payload) << where;
  EXPECT_EQ(sink.frames[1].body, to_bytes("control body")) << where;
  EXPECT_EQ(sink.frames[1].payload, Payload::kNone) << where;
  EXPECT_EQ(sink.frames[2].header.type, 3) << where;
  EXPECT_TRUE(sink.frames[2].body.empty()) << where;
}

TEST(StreamLinkReceiving, FramesCutAtAnyPositionArriveWhole) {
  Bytes payload = pattern(50);
  const Bytes wire = three_frames(payload);
  for (const auto memory : {RecordingSink::Memory::kHost, RecordingSink::Memory::kUnmapped}) {
    for (std::size_t cut = 0; cut <= wire.size(); ++cut) {
      Linked linked;
      linked.at_b.memory = memory;
      put(*linked.pair.a_to_b, ByteView(wire).first(cut));
      linked.run_b();
      put(*linked.pair.a_to_b, ByteView(wire).subspan(cut));
      linked.run_b();
      expect_three(linked.at_b, payload, "cut at " + std::to_string(cut));
    }
  }
}

TEST(StreamLinkReceiving, FramesWithPaddingAndRestCutAtAnyPositionArriveWhole) {
  Bytes payload = pattern(50);
  const Bytes body = to_bytes("body");
  for (const std::size_t padding : {0u, 1u, 31u, 63u}) {
    // Two of them, as a sender with other memory would have it.
    Bytes wire;
    for (int i = 0; i < 2; ++i) {
      Bytes head(kHeaderBytes);
      encode_header({.type = 2, .path = {}, .epoch = {}, .payload_bytes = 50}, body, nullptr, padding, head.data());
      for (const Bytes& part : {head, body, Bytes(padding), payload}) wire.insert(wire.end(), part.begin(), part.end());
      wire.resize(whole_lines(wire.size()), std::byte{0xff});
    }
    for (std::size_t cut = 0; cut <= wire.size(); ++cut) {
      Linked linked;
      put(*linked.pair.a_to_b, ByteView(wire).first(cut));
      linked.run_b();
      put(*linked.pair.a_to_b, ByteView(wire).subspan(cut));
      linked.run_b();
      ASSERT_EQ(linked.at_b.frames.size(), 2u) << "cut at " << cut;
      for (const auto& frame : linked.at_b.frames) EXPECT_EQ(frame.bytes, payload) << "cut at " << cut;
    }
  }
}

// Between two reads the kernel does what else there is to do, and a checksum wants the bytes in the cache.
TEST(StreamLinkReceiving, ALargePayloadIsOneReadUnlessItIsChecked) {
  for (const bool checksum : {false, true}) {
    StreamLimits limits;
    limits.checksum = checksum;
    Linked linked(limits);
    Bytes payload = pattern(1024 * 1024);
    HostRegion region(payload.data(), payload.size());
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(linked.a->post(data_frame(1, {}, region)));
      linked.run();
    }
    ASSERT_EQ(linked.at_b.frames.size(), 3u);
    // The first finds the head of the frame, too. Checked: 256 KiB each.
    EXPECT_EQ(linked.pair.a_to_b->reads, checksum ? 3u * 5 : 3u * 2);
  }
}

TEST(StreamLinkReceiving, AnyReadAndWriteSizeCarriesTheSameFrames) {
  for (const std::size_t size : {1u, 2u, 3u, 7u, 28u, 29u, 1000u, 4096u, 70000u}) {
    Linked linked;
    linked.pair.a_to_b->read_bytes_max = size;
    linked.pair.a_to_b->write_bytes_max = size;
    linked.pair.a_to_b->capacity = 2 * size;
    Bytes small = pattern(8, 1);
    Bytes large = pattern(100'000, 2);
    HostRegion small_region(small.data(), small.size());
    HostRegion large_region(large.data(), large.size());
    for (std::uint8_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(linked.a->post(data_frame(i, to_bytes("x"), i % 2 == 0 ? large_region : small_region)));
      ASSERT_TRUE(linked.a->post(control_frame(100, pattern(kBodyBytesMax, i))));
    }
    linked.run();
    std::size_t controls = 0;
    std::uint8_t next = 0;
    for (const auto& frame : linked.at_b.frames) {
      if (frame.header.type == 100) {
        EXPECT_EQ(frame.body, pattern(kBodyBytesMax, static_cast<std::uint32_t>(controls++)));
      } else {
        EXPECT_EQ(frame.header.type, next);
        EXPECT_EQ(frame.bytes, next++ % 2 == 0 ? large : small) << "size " << size;
        EXPECT_EQ(frame.payload, Payload::kPlaced);
      }
    }
    EXPECT_EQ(controls, 4u);
    EXPECT_EQ(next, 4);
  }
}

TEST(StreamLinkReceiving, DamageToAnyByteOfHeaderOrBodyTakesTheLinkDown) {
  Bytes payload = pattern(50);
  const Bytes wire = three_frames(payload);
  for (std::size_t i = 0; i < kHeaderBytes + 9; ++i) {
    Bytes bad = wire;
    bad[i] ^= std::byte{0x10};
    Linked linked;
    put(*linked.pair.a_to_b, bad);
    linked.run_b();
    EXPECT_EQ(linked.b->state(), LinkState::kDown) << "byte " << i;
    EXPECT_EQ(linked.b->cause(), Cause::kBadFrame) << "byte " << i;
    EXPECT_TRUE(linked.b->error().starts_with("framing is lost")) << linked.b->error();
    EXPECT_TRUE(linked.at_b.frames.empty()) << "byte " << i;
  }
}

TEST(StreamLinkReceiving, DamageToThePayloadHarmsOnlyItsFrame) {
  Bytes payload = pattern(50);
  const Bytes wire = three_frames(payload);
  for (const auto memory :
       {RecordingSink::Memory::kHost, RecordingSink::Memory::kUnmapped, RecordingSink::Memory::kNone}) {
    for (std::size_t i = 0; i < payload.size(); ++i) {
      Bytes bad = wire;
      bad[first_payload(payload) + i] ^= std::byte{0x01};
      Linked linked;
      linked.at_b.memory = memory;
      put(*linked.pair.a_to_b, bad);
      linked.run_b();
      ASSERT_EQ(linked.at_b.frames.size(), 3u) << "byte " << i;
      // What is dropped is not checked.
      EXPECT_EQ(linked.at_b.frames[0].payload,
                memory == RecordingSink::Memory::kNone ? Payload::kDiscarded : Payload::kCorrupt);
      EXPECT_EQ(linked.b->state(), LinkState::kUp);
    }
  }
}

TEST(StreamLinkReceiving, WithoutChecksumsPayloadIsTakenAsItComes) {
  StreamLimits limits;
  limits.checksum = false;
  Linked linked(limits);
  Bytes payload = pattern(50);
  HostRegion region(payload.data(), payload.size());
  ASSERT_TRUE(linked.a->post(data_frame(1, {}, region)));
  linked.a->step(kNow, linked.at_a);
  linked.pair.a_to_b->bytes.back() ^= std::byte{1};
  linked.run_b();
  ASSERT_EQ(linked.at_b.frames.size(), 1u);
  EXPECT_EQ(linked.at_b.frames[0].payload, Payload::kPlaced);
}

TEST(StreamLinkReceiving, DiscardRestStopsWritingAtOnceAndTheStreamGoesOn) {
  Bytes payload = pattern(1000);
  for (const auto memory : {RecordingSink::Memory::kHost, RecordingSink::Memory::kUnmapped}) {
    for (const std::size_t arrived : {0u, 1u, 500u, 999u}) {
      const Bytes wire = three_frames(payload);
      Linked linked;
      linked.at_b.memory = memory;
      const std::size_t head = first_payload(payload) + arrived;
      put(*linked.pair.a_to_b, ByteView(wire).first(head));
      linked.run_b();
      linked.b->discard_rest();
      put(*linked.pair.a_to_b, ByteView(wire).subspan(head));
      linked.run_b();
      ASSERT_EQ(linked.at_b.frames.size(), 3u);
      EXPECT_EQ(linked.at_b.frames[0].payload, Payload::kDiscarded);
      Bytes expected(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(arrived));
      expected.resize(payload.size(), std::byte{0xEE});
      EXPECT_EQ(linked.at_b.frames[0].bytes, expected) << "arrived " << arrived;
    }
  }
}

TEST(StreamLinkReceiving, EndOfStreamIsClosedAndResetIsReset) {
  for (const bool abortive : {false, true}) {
    Linked linked;
    (abortive ? linked.pair.a_to_b->reset : linked.pair.a_to_b->ended) = true;
    EXPECT_TRUE(linked.b->step(kNow, linked.at_b));
    EXPECT_EQ(linked.b->state(), LinkState::kDown);
    EXPECT_EQ(linked.b->cause(), abortive ? Cause::kReset : Cause::kClosed);
    EXPECT_FALSE(linked.b->error().empty());
    EXPECT_FALSE(linked.b->step(kNow, linked.at_b));
    EXPECT_EQ(linked.b->post(control_frame(1, {})).error().fault, Fault::kPathDown);
  }
}

TEST(StreamLinkReceiving, AStepReadsABoundedAmount) {
  StreamLimits limits;
  limits.read_bytes_per_step = 1000;
  Linked linked(limits);
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(linked.a->post(control_frame(1, to_bytes("12345678"))));
  while (linked.a->step(kNow, linked.at_a)) {
  }
  EXPECT_TRUE(linked.b->step(kNow, linked.at_b));
  EXPECT_LT(linked.at_b.frames.size(), 1000u);
  linked.run_b();
  EXPECT_EQ(linked.at_b.frames.size(), 3000u);
}

TEST(StreamLinkFence, DrainDeliversWhatHadArrivedAndDropsThePart) {
  Bytes payload = pattern(50);
  const Bytes wire = three_frames(payload);
  for (std::size_t cut = 0; cut <= wire.size(); ++cut) {
    Linked linked;
    put(*linked.pair.a_to_b, ByteView(wire).first(cut));
    linked.pair.a_to_b->reset = cut % 2 == 0;
    linked.b->drain_and_close(kNow, linked.at_b);
    const std::size_t first = first_payload(payload) + payload.size();
    const std::size_t second = first + kHeaderBytes + 12;
    const std::size_t third = whole_lines(second) + kHeaderBytes;
    const std::size_t expected = (cut >= first) + (cut >= second) + (cut >= third);
    EXPECT_EQ(linked.at_b.frames.size(), expected) << "cut " << cut;
    EXPECT_EQ(linked.b->state(), LinkState::kDown);
    EXPECT_TRUE(linked.pair.b_to_a->reset) << "the close must be abortive";
  }
}

TEST(StreamLinkFence, DrainAfterAWriteErrorStillDeliversWhatHadArrived) {
  Bytes payload = pattern(50);
  Linked linked;
  ASSERT_TRUE(linked.b->post(control_frame(5, {})));
  linked.pair.b_to_a->reset = true;
  linked.b->step(kNow, linked.at_b);
  ASSERT_EQ(linked.b->state(), LinkState::kDown);
  put(*linked.pair.a_to_b, three_frames(payload));
  EXPECT_FALSE(linked.b->step(kNow, linked.at_b));
  EXPECT_TRUE(linked.at_b.frames.empty()) << "once down only the fence delivers";
  linked.b->drain_and_close(kNow, linked.at_b);
  expect_three(linked.at_b, payload, "drained");
  EXPECT_EQ(linked.b->cause(), Cause::kReset) << "the first cause stays";
}

TEST(StreamLinkFence, NothingIsDeliveredBehindABadFrame) {
  Bytes payload = pattern(50);
  Bytes bad = three_frames(payload);
  bad[0] ^= std::byte{1};
  Linked linked;
  put(*linked.pair.a_to_b, bad);
  linked.run_b();
  put(*linked.pair.a_to_b, three_frames(payload));
  linked.b->drain_and_close(kNow, linked.at_b);
  EXPECT_TRUE(linked.at_b.frames.empty());
  EXPECT_EQ(linked.b->cause(), Cause::kBadFrame);
}

TEST(StreamLinkFence, ASinkMayFenceTheLinkThatCallsIt) {
  Bytes payload = pattern(50);
  const Bytes wire = three_frames(payload);
  for (const bool at_header : {true, false}) {
    Linked linked;
    put(*linked.pair.a_to_b, wire);
    if (at_header) {
      linked.at_b.at_header = [&](Link& link, const FrameHeader&) { link.drain_and_close(kNow, linked.at_b); };
    } else {
      linked.at_b.at_frame = [&](Link& link, const RecordingSink::Frame&) { link.drain_and_close(kNow, linked.at_b); };
    }
    linked.b->step(kNow, linked.at_b);
    ASSERT_EQ(linked.at_b.frames.size(), 3u);
    EXPECT_EQ(linked.at_b.frames[0].payload, at_header ? Payload::kDiscarded : Payload::kPlaced);
    EXPECT_EQ(linked.at_b.frames[2].header.type, 3);
    EXPECT_EQ(linked.b->state(), LinkState::kDown);
  }
}

TEST(StreamLinkFence, ASinkMayCloseTheLinkThatCallsIt) {
  Bytes payload = pattern(50);
  Linked linked;
  put(*linked.pair.a_to_b, three_frames(payload));
  linked.at_b.at_frame = [](Link& link, const RecordingSink::Frame&) { link.close(); };
  linked.b->step(kNow, linked.at_b);
  EXPECT_EQ(linked.at_b.frames.size(), 1u);
  EXPECT_EQ(linked.b->state(), LinkState::kDown);
  EXPECT_TRUE(linked.pair.b_to_a->ended);
}

}  // namespace
}  // namespace r2ccl
