// Goal: two sessions exchange messages exactly once, bit for bit. What happens when paths break is in
// session_repair_test.cc.

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "testing/session_pair.h"

namespace r2ccl {
namespace {

using namespace testing;

TEST(Session, EverySizeArrivesExactlyInBothDirections) {
  Pair pair;
  std::uint64_t token = 1;
  for (const std::size_t size : {0u, 1u, 1023u, 1024u, 1025u, 8192u, 8193u, 100'000u}) {
    for (int from : {0, 1}) {
      TestBuffer source(pattern(size, token & 0xff)), target(size);
      ASSERT_TRUE(pair.ends[1 - from]->receive(kGroup, kStream, target.all(), 0, token));
      ASSERT_TRUE(pair.ends[from]->send(kGroup, kStream, source.all(), token * 3, token));
      pair.completions[0].clear();
      pair.completions[1].clear();
      ASSERT_TRUE(pair.run_until_completions(1, 1)) << size;
      EXPECT_EQ(source.bytes, target.bytes);
      EXPECT_EQ(pair.completions[1 - from][0].length, size);
      EXPECT_EQ(pair.completions[1 - from][0].tag, token * 3);
      ++token;
    }
  }
}

std::map<PathId, int> chunks_by_path(const Pair& pair) {
  std::map<PathId, int> chunks;
  for (const Event& event : pair.telemetry[0].events())
    if (event.kind == EventKind::kChunkSent) ++chunks[event.path];
  return chunks;
}

TEST(Session, BulkUsesAllPaths) {
  Pair pair;
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  TestBuffer source(pattern(400'000, 1)), target(400'000);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  ASSERT_TRUE(pair.run_until_completions(1, 1));
  EXPECT_EQ(chunks_by_path(pair).size(), 4u);
}

TEST(Session, AMessageWithANicLeavesByThatOneOrTheNext) {
  for (const bool lost : {false, true}) {
    Pair pair(3);
    ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
    if (lost) {
      pair.net.unreachable.insert(kRail1);
      pair.net.cut(kRail1);
      pair.turn();
      pair.turn();
    }
    TestBuffer source(pattern(400'000, 1)), target(400'000);
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
    ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1, NicId{1}));
    ASSERT_TRUE(pair.run_until_completions(1, 1));
    EXPECT_EQ(source.bytes, target.bytes);
    const auto chunks = chunks_by_path(pair);
    ASSERT_EQ(chunks.size(), 1u);
    EXPECT_EQ(chunks.begin()->first, lost ? (PathId{{2}, {2}}) : kRail1);
  }
}

TEST(Session, AfterTheLastNicComesTheFirst) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  pair.net.unreachable.insert(kRail1);
  pair.net.cut(kRail1);
  TestBuffer source(pattern(50'000, 1)), target(50'000);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1, NicId{1}));
  ASSERT_TRUE(pair.run_until_completions(1, 1));
  EXPECT_EQ(source.bytes, target.bytes);
}

// The first stream fills its NIC and can not go on before receipts come; the second has a NIC of its own.
TEST(Session, AStreamWhoseNicIsFullHoldsNoOtherUp) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  TestBuffer many(pattern(2'000'000, 1)), few(pattern(20'000, 2)), many_in(2'000'000), few_in(20'000);
  const StreamId other{2};
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, many_in.all(), 0, 1));
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, other, few_in.all(), 0, 2));
  pair.turn();
  pair.turn();  // the credits are there
  pair.net.silent.insert(kRail0);
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, many.all(), 0, 1, NicId{0}));
  pair.turn();
  ASSERT_TRUE(pair.ends[0]->send(kGroup, other, few.all(), 0, 2, NicId{1}));
  const auto few_there = [&] {
    return std::ranges::any_of(pair.completions[1], [](const Completion& done) { return done.token == 2; });
  };
  EXPECT_TRUE(pair.run(few_there, 10ms));
  EXPECT_EQ(few.bytes, few_in.bytes);
}

// 32 KiB take a third of a millisecond of a path at its first rate, so they are worth three of them.
TEST(Session, AMessageIsCutFinerWherePathsAreSlow) {
  Pair pair(4, {});
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  TestBuffer source(pattern(32 << 10, 1)), target(32 << 10);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  ASSERT_TRUE(pair.run_until_completions(1, 1));
  EXPECT_EQ(source.bytes, target.bytes);
  std::vector<std::uint64_t> chunks;
  for (const Event& event : pair.telemetry[0].events())
    if (event.kind == EventKind::kChunkSent) chunks.push_back(event.bytes);
  EXPECT_EQ(chunks, (std::vector<std::uint64_t>{12 << 10, 12 << 10, 8 << 10}));
}

// The chunks that this end has events of, on one life of a path.
std::multiset<std::uint64_t> chunks_of(const Pair& pair, int side, EventKind kind, PathId path, Epoch epoch) {
  std::multiset<std::uint64_t> chunks;
  for (const Event& event : pair.telemetry[side].events()) {
    if (event.kind == kind && event.path == path && event.epoch == epoch) chunks.insert(event.number);
  }
  return chunks;
}

TEST(Session, CutInTheMiddleReplaysOnlyWhatIsMissing) {
  std::size_t replayed_at_all = 0, kept_at_all = 0;
  for (std::size_t frames = 1; frames < 40; ++frames) {
    Pair pair(2);
    ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
    TestBuffer source(pattern(40'000, 1)), target(40'000);
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
    ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
    pair.net.frames_per_step = 1;
    const Epoch cut_epoch = pair.ends[0]->paths()[1].epoch;
    for (std::size_t i = 0; i < frames; ++i) pair.turn();
    pair.net.cut(kRail1);
    ASSERT_TRUE(pair.run_until_completions(1, 1)) << frames;
    EXPECT_EQ(source.bytes, target.bytes);
    const auto sent = chunks_of(pair, 0, EventKind::kChunkSent, kRail1, cut_epoch);
    const auto placed = chunks_of(pair, 1, EventKind::kChunkPlaced, kRail1, cut_epoch);
    std::multiset<std::uint64_t> missing, replayed;
    std::ranges::set_difference(sent, placed, std::inserter(missing, missing.end()));
    for (const Event& event : pair.telemetry[0].events()) {
      if (event.kind == EventKind::kChunkReplayed) replayed.insert(event.number);
    }
    EXPECT_EQ(replayed, missing) << frames;
    EXPECT_EQ(pair.count(EventKind::kChunkDuplicate, 1), 0u);
    replayed_at_all += replayed.size();
    kept_at_all += missing.empty() ? 0 : placed.size();
  }
  EXPECT_GT(replayed_at_all, 0u) << "a cut must have come between sending and placing";
  EXPECT_GT(kept_at_all, 0u) << "... and with something in already that must not go again";
}

TEST(Session, MemoryTheProcessorCanNotAddressIsMovedByRegionsAlone) {
  Pair pair(2);
  ReadWriteRegion source(50'000), target(50'000);
  source.bytes() = pattern(50'000, 9);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, {&target, 0, 50'000}, 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, {&source, 0, 50'000}, 0, 1));
  ASSERT_TRUE(pair.run_until_completions(1, 1));
  EXPECT_EQ(source.bytes(), target.bytes());
}

TEST(Session, SmallMessagesCompleteLocallyAndWaitForTheirReceive) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  TestBuffer source(pattern(100, 3));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  EXPECT_EQ(pair.ends[0]->take_completions().size(), 10u);
  std::fill(source.bytes.begin(), source.bytes.end(), std::byte{0});
  for (int i = 0; i < 20; ++i) pair.turn();
  TestBuffer target(100);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  ASSERT_TRUE(pair.run_until_completions(0, 1));
  EXPECT_EQ(target.bytes, pattern(100, 3));
}

// Both ends count the same, however the message is cut; a difference would use the grant up in time.
TEST(Session, TheGrantIsWholeAgainAfterEveryMessage) {
  SessionConfig config;
  config.limits.eager_bytes = 40 << 10;
  Pair pair(1, config);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  TestBuffer source(pattern(32 << 10, 3)), target(32 << 10);
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t before = pair.telemetry[0].counters.chunks_sent;
    ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
    ASSERT_TRUE(pair.run([&] { return pair.telemetry[0].counters.chunks_sent > before; }, 10ms)) << i;
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
    pair.completions[0].clear();
    pair.completions[1].clear();
    ASSERT_TRUE(pair.run_until_completions(0, 1)) << i;
    pair.run([] { return false; }, 2ms);  // for the receipt
  }
}

TEST(Session, LargerEagerMessagesAreNotCopiedAndWaitAtTheOtherEnd) {
  SessionConfig config;
  config.limits.eager_message_max = 200'000;
  Pair pair(2, config);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  std::uint8_t seed = 1;
  for (const std::size_t bytes : {100'000, 200'000, 50'000, 9'000, 150'000}) {  // their memory there is used again
    TestBuffer source(pattern(bytes, seed)), target(bytes);
    pair.completions[0].clear();
    pair.completions[1].clear();
    ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
    ASSERT_TRUE(pair.run_until_completions(1, 0)) << bytes;
    std::ranges::fill(source.bytes, std::byte{0});
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
    ASSERT_TRUE(pair.run_until_completions(1, 1)) << bytes;
    EXPECT_EQ(target.bytes, pattern(bytes, seed++)) << bytes;
  }
}

TEST(Session, EagerBytesStayWithinTheGrant) {
  SessionConfig config = Pair::small_chunks();
  config.limits.eager_bytes = 4096;
  Pair pair(1, config);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  std::vector<std::unique_ptr<TestBuffer>> targets;
  for (unsigned i = 0; i < 50; ++i) {
    TestBuffer source(pattern(500, i));
    ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  }
  for (int i = 0; i < 100; ++i) pair.turn();
  EXPECT_LE(pair.count(EventKind::kChunkSent, 0), 4096u / 628);
  for (unsigned i = 0; i < 50; ++i) {
    targets.push_back(std::make_unique<TestBuffer>(500));
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, targets.back()->all(), 0, i));
  }
  ASSERT_TRUE(pair.run_until_completions(50, 50));
  for (unsigned i = 0; i < 50; ++i) EXPECT_EQ(targets[i]->bytes, pattern(500, i));
}

TEST(Session, MessageLongerThanItsReceiveIsMisuseAtBothEnds) {
  for (const std::size_t size : {100u, 20'000u}) {
    Pair pair(2);
    TestBuffer source(pattern(size, 1)), target(50), again(pattern(10, 2)), after(10);
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
    ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
    ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
    ASSERT_TRUE(pair.run_until_completions(1, 1));
    EXPECT_EQ(pair.completions[1][0].status.error().fault, Fault::kCallsDiffer);
    EXPECT_EQ(target.bytes, Bytes(50));
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, after.all(), 0, 2));
    ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, again.all(), 0, 2));
    ASSERT_TRUE(pair.run_until_completions(2, 2));
    EXPECT_EQ(after.bytes, again.bytes);
  }
}

TEST(Session, CorruptPayloadIsSentAgainAndCounted) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  pair.net.corrupt_next = 2;
  TestBuffer source(pattern(20'000, 1)), target(20'000);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  ASSERT_TRUE(pair.run_until_completions(1, 1));
  EXPECT_EQ(source.bytes, target.bytes);
  EXPECT_EQ(pair.telemetry[1].counters.corrupt_payloads, 2u);
  EXPECT_EQ(pair.telemetry[0].counters.resent_chunks, 2u);
}

TEST(Session, ReceiptsRideOnDataWhicheverPathTheseTake) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  pair.turn(10ms);  // what there was to say about the beginning is said
  std::map<PathId, std::set<FrameType>> sent;
  TestBuffer there(pattern(100, 1)), back(pattern(100, 2)), target(100);
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, there.all(), 0, 1));
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  ASSERT_TRUE(pair.run_until_completions(1, 1));
  const FrameHeader heartbeat{.type = static_cast<std::uint8_t>(FrameType::kHeartbeat),
                              .path = kRail1,
                              .epoch = pair.ends[1]->paths()[1].epoch};
  for (const auto& [link, path] : pair.net.links)
    if (path == kRail1 && link->peer() == ProcessId{1}) TestNet::inject(*link, heartbeat, {}, {});
  pair.net.watch = [&](PathId path, const FrameHeader& header) { sent[path].insert(FrameType{header.type}); };
  ASSERT_TRUE(pair.ends[1]->send(kGroup, kStream, back.all(), 0, 1));
  pair.turn(150us);
  EXPECT_TRUE(sent[kRail0].contains(FrameType::kData));
  EXPECT_TRUE(sent[kRail0].contains(FrameType::kReceipt));
  EXPECT_FALSE(sent[kRail1].contains(FrameType::kReceipt));
}

// A write of its own costs both ends more than the frame.
TEST(Session, WhatIsToBeToldOfALargeMessageLeavesWithTheAnswerToIt) {
  for (const bool answered : {true, false}) {
    Pair pair(1, SessionConfig{});
    ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
    pair.turn(10ms);  // what there was to say about the beginning is said
    TestBuffer message(pattern(100'000, 1)), target(100'000), next(100'000);
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
    pair.turn();
    std::set<FrameType> sent;
    pair.net.watch = [&](PathId, const FrameHeader& header) { sent.insert(FrameType{header.type}); };
    ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, message.all(), 0, 1));
    ASSERT_TRUE(pair.run_until_completions(0, 1));
    EXPECT_FALSE(sent.contains(FrameType::kReceipt));
    if (answered) {
      ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, next.all(), 0, 2));
    }
    pair.ends[1]->step(pair.now);
    EXPECT_TRUE(sent.contains(FrameType::kReceipt));
    EXPECT_EQ(sent.contains(FrameType::kCredit), answered);
  }
}

TEST(Session, WhoEndsAGroupHasReceivedWhatWasWholeBefore) {
  Pair pair(1, SessionConfig{});
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  TestBuffer message(pattern(100'000, 1)), target(100'000);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, message.all(), 0, 1));
  ASSERT_TRUE(pair.run_until_completions(0, 1));
  pair.ends[1]->abort(kGroup);
  ASSERT_TRUE(pair.run_until_completions(1, 1));
  EXPECT_TRUE(pair.completions[0][0].status);
}

// However many messages become whole in step after step.
TEST(Session, WhatIsToBeToldWaitsForOneStepAtTheMost) {
  constexpr std::size_t kMessages = 20;
  Pair pair(1, SessionConfig{});
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  TestBuffer message(pattern(100'000, 1));
  std::deque<TestBuffer> targets;
  for (std::size_t i = 0; i < kMessages; ++i)
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, targets.emplace_back(100'000).all(), 0, i));
  pair.turn(10ms);
  for (std::size_t i = 0; i < kMessages; ++i) ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, message.all(), 0, i));
  pair.net.frames_per_step = 1;
  for (std::size_t whole = 0; whole < kMessages; whole = pair.completions[1].size()) {
    pair.turn(1us);
    EXPECT_LE(pair.completions[1].size(), pair.completions[0].size() + 4) << "told late";
  }
}

}  // namespace
}  // namespace r2ccl
