// Goal: a reader delivers whole frames and nothing else, wherever reads cut them, and touches no memory it was told to
// leave.
// Method: frames are put into a stream in memory by hand; the link in whose name they are delivered does nothing.

#include "transport/stream/frame_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/crc32c.h"
#include "testing/fake_provider.h"
#include "testing/link_testing.h"
#include "testing/memory_stream.h"

namespace r2ccl {
namespace {

// A frame as it lies on the wire.
Bytes frame(std::uint8_t type, ByteView body, ByteView payload, std::size_t padding = 0) {
  FrameHeader header{.type = type, .path = {{1}, {2}}, .epoch = {7}};
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  const std::uint32_t crc = crc32c(0, payload);
  Bytes wire(kHeaderBytes);
  encode_header(header, body, payload.empty() ? nullptr : &crc, padding, wire.data());
  wire.insert(wire.end(), body.begin(), body.end());
  wire.resize(wire.size() + padding);
  wire.insert(wire.end(), payload.begin(), payload.end());
  wire.resize(whole_lines(wire.size()));
  return wire;
}

class FrameReaderTest : public testing::Test {
 protected:
  void arrive(ByteView bytes) { in().bytes.insert(in().bytes.end(), bytes.begin(), bytes.end()); }
  MemoryPipe& in() { return *pair_.a_to_b; }
  FrameReader::Outcome read(std::size_t bytes_max = 1 << 20, FrameReader::Until until = FrameReader::Until::kReady) {
    return reader_.read(*pair_.b, link_, sink_, bytes_max, until);
  }
  std::vector<std::uint8_t> types() const {
    std::vector<std::uint8_t> all;
    for (const auto& frame : sink_.frames) all.push_back(frame.header.type);
    return all;
  }

  MemoryPair pair_;
  FakeLink link_{std::make_shared<FakeWire>(), LinkState::kUp};
  RecordingSink sink_;
  FrameReader reader_;
};

TEST_F(FrameReaderTest, FramesComeOutAsTheyWentIn) {
  const Bytes payload = pattern(50'000);
  arrive(frame(1, to_bytes("one"), {}));
  arrive(frame(2, to_bytes("two"), payload, 13));
  arrive(frame(3, {}, {}));
  const auto outcome = read();
  EXPECT_TRUE(outcome.moved);
  EXPECT_EQ(outcome.cause, Cause::kNone);
  ASSERT_EQ(types(), (std::vector<std::uint8_t>{1, 2, 3}));
  EXPECT_EQ(sink_.frames[0].body, to_bytes("one"));
  EXPECT_EQ(sink_.frames[0].payload, Payload::kNone);
  EXPECT_EQ(sink_.frames[1].payload, Payload::kPlaced);
  EXPECT_EQ(sink_.frames[1].bytes, payload);
  EXPECT_EQ(sink_.frames[1].body, to_bytes("two"));
  EXPECT_EQ(sink_.frames[1].header.epoch, Epoch{7});
  EXPECT_FALSE(read().moved) << "there is nothing left";
}

TEST_F(FrameReaderTest, APartOfAFrameIsKeptUntilTheRestComes) {
  const Bytes payload = pattern(300);
  const Bytes wire = frame(2, to_bytes("body"), payload);
  for (std::size_t cut = 1; cut < wire.size(); ++cut) {
    sink_.frames.clear();
    arrive(ByteView(wire).first(cut));
    read();
    // The zeros that end a frame are not waited for.
    const bool whole = cut >= wire.size() - rest_of_line(kHeaderBytes + 4 + payload.size());
    ASSERT_EQ(sink_.frames.size(), whole ? 1u : 0u) << cut;
    arrive(ByteView(wire).subspan(cut));
    read();
    ASSERT_EQ(sink_.frames.size(), 1u) << cut;
    ASSERT_EQ(sink_.frames[0].bytes, payload) << cut;
  }
}

TEST_F(FrameReaderTest, ReadsStopAfterAboutTheBytesAskedFor) {
  for (std::uint8_t i = 0; i < 100; ++i) arrive(frame(i, pattern(1000), {}));
  read(4096);
  EXPECT_GE(types().size(), 3u);
  EXPECT_LE(types().size(), 25u) << "what one read brought";
  while (read(4096).moved) {
  }
  EXPECT_EQ(types().size(), 100u);
}

TEST_F(FrameReaderTest, ALargePayloadIsReadStraightIntoItsMemory) {
  const Bytes payload = pattern(200'000);
  arrive(frame(1, {}, pattern(20'000)));
  arrive(frame(2, {}, payload));
  read();
  ASSERT_EQ(sink_.frames.size(), 2u);
  EXPECT_EQ(sink_.frames[1].bytes, payload);
  EXPECT_LE(in().reads, 6u);
}

TEST_F(FrameReaderTest, ADamagedPayloadIsCorruptAndTheNextFrameIsRight) {
  Bytes wire = frame(1, {}, pattern(1000));
  wire[kHeaderBytes + 500] ^= std::byte{1};
  arrive(wire);
  arrive(frame(2, {}, pattern(1000)));
  EXPECT_EQ(read().cause, Cause::kNone);
  ASSERT_EQ(sink_.frames.size(), 2u);
  EXPECT_EQ(sink_.frames[0].payload, Payload::kCorrupt);
  EXPECT_EQ(sink_.frames[1].payload, Payload::kPlaced);
}

TEST_F(FrameReaderTest, ADamagedHeadEndsTheStreamWithAReason) {
  for (const std::size_t at : {std::size_t{3}, kHeaderBytes + 1}) {
    MemoryPair pair;
    FrameReader reader;
    RecordingSink sink;
    Bytes wire = frame(1, to_bytes("body"), {});
    wire[at] ^= std::byte{1};
    pair.a_to_b->bytes.assign(wire.begin(), wire.end());
    const auto outcome = reader.read(*pair.b, link_, sink, 1 << 20, FrameReader::Until::kReady);
    EXPECT_EQ(outcome.cause, Cause::kBadFrame) << at;
    EXPECT_NE(outcome.problem, nullptr) << at;
    EXPECT_TRUE(sink.frames.empty()) << at;
  }
}

TEST_F(FrameReaderTest, TheEndOfTheStreamComesAfterItsLastFrame) {
  arrive(frame(1, {}, {}));
  pair_.a->close(false);
  EXPECT_EQ(read().cause, Cause::kNone);
  EXPECT_EQ(types(), std::vector<std::uint8_t>{1});
  const auto outcome = read();
  EXPECT_EQ(outcome.cause, Cause::kClosed);
  EXPECT_EQ(outcome.problem, nullptr);
}

TEST_F(FrameReaderTest, WhatNobodyWantsIsReadAndDropped) {
  sink_.memory = RecordingSink::Memory::kNone;
  arrive(frame(1, {}, pattern(100'000)));
  arrive(frame(2, {}, {}));
  read();
  ASSERT_EQ(types(), (std::vector<std::uint8_t>{1, 2}));
  EXPECT_EQ(sink_.frames[0].payload, Payload::kDiscarded);
}

TEST_F(FrameReaderTest, DiscardedInTheMiddleItsMemoryIsLeftAlone) {
  const Bytes wire = frame(1, {}, pattern(10'000));
  arrive(ByteView(wire).first(5000));
  read();
  const Bytes before = sink_.buffer();
  reader_.discard_rest();
  arrive(ByteView(wire).subspan(5000));
  read();
  ASSERT_EQ(sink_.frames.size(), 1u);
  EXPECT_EQ(sink_.frames[0].payload, Payload::kDiscarded);
  EXPECT_EQ(sink_.buffer(), before);
}

TEST_F(FrameReaderTest, StoppedItDeliversNothingMoreNotEvenWhatItHas) {
  sink_.at_frame = [&](Link&, const RecordingSink::Frame&) { reader_.stop(); };
  arrive(frame(1, {}, {}));
  arrive(frame(2, {}, {}));
  read();
  read();
  EXPECT_EQ(types(), std::vector<std::uint8_t>{1});
}

// A fence noticed while a frame is handled reads on from inside it.
TEST_F(FrameReaderTest, ReadFromInsideACallbackTheBodyOutsideStaysWhatItWas) {
  bool inside = false;
  sink_.at_frame = [&](Link&, const RecordingSink::Frame& one) {
    if (one.header.type != 1) return;
    EXPECT_TRUE(reader_.reading());
    inside = true;
    arrive(frame(3, to_bytes("another body"), pattern(30'000)));
    read(1 << 20, FrameReader::Until::kAll);
    reader_.stop();
  };  // the sink compares the body before and after
  arrive(frame(1, to_bytes("a body to keep"), pattern(100)));
  arrive(frame(2, to_bytes("staged with it"), {}));
  read();
  EXPECT_TRUE(inside);
  EXPECT_FALSE(reader_.reading());
  EXPECT_EQ(types(), (std::vector<std::uint8_t>{1, 2, 3}));
}

TEST_F(FrameReaderTest, BytesBeforeTheFirstFrameCanBeTakenByHand) {
  arrive(to_bytes("hello"));
  arrive(frame(1, {}, {}));
  reader_.fill(*pair_.b);
  ASSERT_GE(reader_.staged().size(), 5u);
  EXPECT_TRUE(std::ranges::equal(reader_.staged().first(5), to_bytes("hello")));
  reader_.consume(5);
  read();
  EXPECT_EQ(types(), std::vector<std::uint8_t>{1});
}

}  // namespace
}  // namespace r2ccl
