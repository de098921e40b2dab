// Goal: two sessions exchange messages exactly once, bit for bit, whatever happens to their paths.
// Method: both ends in one thread over frames in memory; the test moves the clock and breaks paths by name.

#include "session/session.h"

#include <gtest/gtest.h>

#include "session/test_net.h"

namespace r2ccl {
namespace {

using testing::TestNet;
using testing::UnmappedRegion;

constexpr GroupId kGroup{7};
constexpr StreamId kStream{1};
constexpr PathId kRail0{{0}, {0}}, kRail1{{1}, {1}};

class CountNotices final : public NoticeSender {
 public:
  void send_notice(ProcessId to, ByteView bytes) override {
    if (!bytes.empty()) ++sent[{to, static_cast<FrameType>(bytes[0])}];
  }
  std::map<std::pair<ProcessId, FrameType>, int> sent;
};
class NoLog final : public Log {
 public:
  bool enabled(LogLevel) const override { return false; }
  void write(LogLevel, std::string_view) override {}
};

ProcessInfo process(std::uint64_t id, std::uint32_t rank, int nics) {
  ProcessInfo info{.process = {id}, .server = {rank}, .rank = rank, .host = "host" + std::to_string(rank), .ports = {}};
  for (int i = 0; i < nics; ++i)
    info.ports.push_back(
        {.nic = {static_cast<std::uint8_t>(i)}, .name = "eth" + std::to_string(i), .listen = {}, .speed_bytes_s = 0});
  return info;
}

Bytes pattern(std::size_t size, unsigned seed) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 131 + i / 251 + seed) & 0xff);
  return bytes;
}

struct Pair {
  explicit Pair(int nics = 4, SessionConfig config = small_chunks())
      : net(nics), telemetry{Telemetry(1 << 16), Telemetry(1 << 16)} {
    const ProcessInfo low = process(1, 0, nics), high = process(2, 1, nics);
    ends[0] = std::make_unique<Session>(low, high, KeyId{1}, net.providers[0], notices, log, telemetry[0], config);
    ends[1] = std::make_unique<Session>(high, low, KeyId{1}, net.providers[1], notices, log, telemetry[1], config);
    for (auto& end : ends) end->join(kGroup, Secret{});
  }
  static SessionConfig small_chunks() {
    SessionConfig config;
    config.limits.chunk_bytes = 1024;
    config.limits.peer_timeout = 5s;
    return config;
  }

  void turn(Duration by = 100us) {
    now += by;
    for (int side : {0, 1}) {
      while (auto link = net.providers[side].accept()) ends[side]->accept(std::move(link), now);
      ends[side]->step(now);
      for (Completion& done : ends[side]->take_completions()) completions[side].push_back(std::move(done));
    }
  }
  template <class Done>
  bool run(Done done, Duration limit = 10s, Duration by = 100us) {
    for (const Instant end = now + limit; now < end; turn(by))
      if (done()) return true;
    return done();
  }
  bool run_until_completions(std::size_t low, std::size_t high) {
    return run([&] { return completions[0].size() >= low && completions[1].size() >= high; });
  }
  std::uint64_t count(EventKind kind, int side) const {
    std::uint64_t n = 0;
    for (const Event& event : telemetry[side].events()) n += event.kind == kind;
    return n;
  }
  bool all_up() const {
    for (const auto& end : ends)
      for (const PathView& path : end->paths())
        if (path.nic_here == path.nic_there && path.state != PathState::kUp) return false;
    return true;
  }

  TestNet net;
  CountNotices notices;
  NoLog log;
  Telemetry telemetry[2];
  std::unique_ptr<Session> ends[2];
  std::vector<Completion> completions[2];
  Instant now{1s};
};

struct Buffer {
  explicit Buffer(Bytes content) : bytes(std::move(content)), region(bytes.data(), bytes.size()) {}
  explicit Buffer(std::size_t size) : Buffer(Bytes(size)) {}
  MemoryRef all() { return {&region, 0, bytes.size()}; }
  Bytes bytes;
  HostRegion region;
};

TEST(Session, EverySizeArrivesExactlyInBothDirections) {
  Pair pair;
  std::uint64_t token = 1;
  for (const std::size_t size : {0u, 1u, 1023u, 1024u, 1025u, 8192u, 8193u, 100'000u}) {
    for (int from : {0, 1}) {
      Buffer source(pattern(size, token & 0xff)), target(size);
      ASSERT_TRUE(pair.ends[1 - from]->receive(kGroup, kStream, target.all(), 0, token));
      ASSERT_TRUE(pair.ends[from]->send(kGroup, kStream, source.all(), token * 3, token));
      pair.completions[0].clear(), pair.completions[1].clear();
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
  Buffer source(pattern(400'000, 1)), target(400'000);
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
      pair.turn(), pair.turn();
    }
    Buffer source(pattern(400'000, 1)), target(400'000);
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
  Buffer source(pattern(50'000, 1)), target(50'000);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1, NicId{1}));
  ASSERT_TRUE(pair.run_until_completions(1, 1));
  EXPECT_EQ(source.bytes, target.bytes);
}

// The first stream fills its NIC and can not go on before receipts come; the second has a NIC of its own.
TEST(Session, AStreamWhoseNicIsFullHoldsNoOtherUp) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  Buffer many(pattern(2'000'000, 1)), few(pattern(20'000, 2)), many_in(2'000'000), few_in(20'000);
  const StreamId other{2};
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, many_in.all(), 0, 1));
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, other, few_in.all(), 0, 2));
  pair.turn(), pair.turn();  // the credits are there
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
  Buffer source(pattern(32 << 10, 1)), target(32 << 10);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  ASSERT_TRUE(pair.run_until_completions(1, 1));
  EXPECT_EQ(source.bytes, target.bytes);
  std::vector<std::uint64_t> chunks;
  for (const Event& event : pair.telemetry[0].events())
    if (event.kind == EventKind::kChunkSent) chunks.push_back(event.bytes);
  EXPECT_EQ(chunks, (std::vector<std::uint64_t>{12 << 10, 12 << 10, 8 << 10}));
}

TEST(Session, CutInTheMiddleReplaysOnlyWhatIsMissing) {
  for (std::size_t frames = 1; frames < 40; ++frames) {
    Pair pair(2);
    ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
    Buffer source(pattern(40'000, 1)), target(40'000);
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
    ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
    pair.net.frames_per_step = 1;
    for (std::size_t i = 0; i < frames; ++i) pair.turn();
    pair.net.cut(kRail1);
    ASSERT_TRUE(pair.run_until_completions(1, 1)) << frames;
    EXPECT_EQ(source.bytes, target.bytes);
    std::set<std::uint64_t> on_dead, placed_before;
    for (const Event& event : pair.telemetry[0].events())
      if (event.kind == EventKind::kChunkSent && event.path == kRail1) on_dead.insert(event.number);
    for (const Event& event : pair.telemetry[0].events()) {
      if (event.kind == EventKind::kChunkReplayed) {
        EXPECT_TRUE(on_dead.contains(event.number));
      }
    }
    EXPECT_EQ(pair.count(EventKind::kChunkDuplicate, 1), 0u);
  }
}

TEST(Session, MemoryTheProcessorCanNotAddressIsMovedByRegionsAlone) {
  Pair pair(2);
  UnmappedRegion source(50'000), target(50'000);
  source.bytes() = pattern(50'000, 9);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, {&target, 0, 50'000}, 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, {&source, 0, 50'000}, 0, 1));
  ASSERT_TRUE(pair.run_until_completions(1, 1));
  EXPECT_EQ(source.bytes(), target.bytes());
}

TEST(Session, SmallMessagesCompleteLocallyAndWaitForTheirReceive) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  Buffer source(pattern(100, 3));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  EXPECT_EQ(pair.ends[0]->take_completions().size(), 10u);
  std::fill(source.bytes.begin(), source.bytes.end(), std::byte{0});
  for (int i = 0; i < 20; ++i) pair.turn();
  Buffer target(100);
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
  Buffer source(pattern(32 << 10, 3)), target(32 << 10);
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t before = pair.telemetry[0].counters.chunks_sent;
    ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
    ASSERT_TRUE(pair.run([&] { return pair.telemetry[0].counters.chunks_sent > before; }, 10ms)) << i;
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
    pair.completions[0].clear(), pair.completions[1].clear();
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
    Buffer source(pattern(bytes, seed)), target(bytes);
    pair.completions[0].clear(), pair.completions[1].clear();
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
  std::vector<std::unique_ptr<Buffer>> targets;
  for (unsigned i = 0; i < 50; ++i) {
    Buffer source(pattern(500, i));
    ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  }
  for (int i = 0; i < 100; ++i) pair.turn();
  EXPECT_LE(pair.count(EventKind::kChunkSent, 0), 4096u / 628);
  for (unsigned i = 0; i < 50; ++i) {
    targets.push_back(std::make_unique<Buffer>(500));
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, targets.back()->all(), 0, i));
  }
  ASSERT_TRUE(pair.run_until_completions(50, 50));
  for (unsigned i = 0; i < 50; ++i) EXPECT_EQ(targets[i]->bytes, pattern(500, i));
}

TEST(Session, MessageLongerThanItsReceiveIsMisuseAtBothEnds) {
  for (const std::size_t size : {100u, 20'000u}) {
    Pair pair(2);
    Buffer source(pattern(size, 1)), target(50), again(pattern(10, 2)), after(10);
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
    ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
    ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
    ASSERT_TRUE(pair.run_until_completions(1, 1));
    EXPECT_EQ(pair.completions[1][0].status.error().fault, Fault::kMisuse);
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
  Buffer source(pattern(20'000, 1)), target(20'000);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  ASSERT_TRUE(pair.run_until_completions(1, 1));
  EXPECT_EQ(source.bytes, target.bytes);
  EXPECT_EQ(pair.telemetry[1].counters.corrupt_payloads, 2u);
  EXPECT_EQ(pair.telemetry[0].counters.resent_chunks, 2u);
}

TEST(Session, SilentPathIsHedgedThenFencedWhileOthersSpeak) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  Buffer source(pattern(40'000, 1)), target(40'000);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  pair.net.silent.insert(kRail1);
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  const Instant start = pair.now;
  ASSERT_TRUE(pair.run_until_completions(1, 1));
  EXPECT_EQ(source.bytes, target.bytes);
  EXPECT_LE(pair.now - start, 250ms);
  EXPECT_GE(pair.count(EventKind::kChunkHedged, 0), 1u);
  EXPECT_GE(pair.count(EventKind::kPathDown, 0), 1u);
}

TEST(Session, AChunkIsNotHedgedToAPathThatHasIt) {
  Pair pair(3);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  Buffer source(pattern(100, 1));
  for (std::uint8_t nic = 0; nic < 3; ++nic) pair.net.silent.insert(PathId{{nic}, {nic}});
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  pair.run([] { return false; }, 900ms);  // one after another falls silent with a copy on it
  EXPECT_EQ(pair.count(EventKind::kPathSuspect, 0), 3u);
  EXPECT_EQ(pair.count(EventKind::kChunkHedged, 0), 2u);
}

TEST(Session, AnUnusedPathInDoubtIsFencedAsSoon) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  pair.run([] { return false; }, 100ms);
  pair.net.silent.insert(kRail1);
  pair.ends[0]->doubt({1}, pair.now);
  EXPECT_TRUE(pair.run([&] { return pair.count(EventKind::kPathDown, 0) > 0; }, 250ms));
}

TEST(Session, ReceiptsRideOnDataWhicheverPathTheseTake) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  pair.turn(10ms);  // what there was to say about the beginning is said
  std::map<PathId, std::set<FrameType>> sent;
  Buffer there(pattern(100, 1)), back(pattern(100, 2)), target(100);
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
    Buffer message(pattern(100'000, 1)), target(100'000), next(100'000);
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
    pair.turn();
    std::set<FrameType> sent;
    pair.net.watch = [&](PathId, const FrameHeader& header) { sent.insert(FrameType{header.type}); };
    ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, message.all(), 0, 1));
    ASSERT_TRUE(pair.run_until_completions(0, 1));
    EXPECT_FALSE(sent.contains(FrameType::kReceipt));
    if (answered) ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, next.all(), 0, 2));
    pair.ends[1]->step(pair.now);
    EXPECT_TRUE(sent.contains(FrameType::kReceipt));
    EXPECT_EQ(sent.contains(FrameType::kCredit), answered);
  }
}

TEST(Session, WhoEndsAGroupHasReceivedWhatWasWholeBefore) {
  Pair pair(1, SessionConfig{});
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  Buffer message(pattern(100'000, 1)), target(100'000);
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
  Buffer message(pattern(100'000, 1));
  std::deque<Buffer> targets;
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

TEST(Session, ARailThatNeverComesUpIsObservedOnce) {
  Pair pair(2);
  pair.net.unreachable.insert(kRail1);
  std::vector<Observation> seen;
  pair.run([&] {
    for (const Observation& one : pair.ends[0]->take_observations()) seen.push_back(one);
    return false;
  });
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].here, (NicName{{0}, {1}}));
  EXPECT_EQ(seen[0].there, (NicName{{1}, {1}}));
  EXPECT_EQ(seen[0].cause, Cause::kTimeout);
}

// NICs that were dead before the job began: rail 1 has only our end, rail 2 only the other's.
TEST(Session, NicsThatNeverHadTheirRailPartnersReachEachOther) {
  constexpr PathId kAcross{{1}, {2}};
  Pair pair(3);
  for (std::uint8_t nic = 0; nic < 3; ++nic) {
    pair.net.unreachable.insert(PathId{{nic}, {1}});  // NIC 1 of the other end is dead,
    pair.net.unreachable.insert(PathId{{2}, {nic}});  // and NIC 2 of ours
  }
  std::set<PathId> carried;
  pair.net.watch = [&](PathId path, const FrameHeader& header) {
    if (header.payload_bytes != 0) carried.insert(path);
  };
  Buffer source(pattern(100'000, 1)), target(100'000);
  for (std::size_t sent = 0; sent < 2000 && !carried.contains(kAcross); ++sent) {
    ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
    ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
    ASSERT_TRUE(pair.run([&] { return pair.completions[1].size() > sent; }, 10s, 1ms));
  }
  EXPECT_EQ(carried, (std::set{kRail0, kAcross}));
}

TEST(Session, AllPathsSilentIsNotAPathFault) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  pair.net.silent = {kRail0, kRail1};
  for (int i = 0; i < 200; ++i) pair.turn(10ms);
  EXPECT_EQ(pair.count(EventKind::kPathDown, 0), 0u);
}

TEST(Session, ResumesWhenTheLastPathReturns) {
  Pair pair(1);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  Buffer source(pattern(40'000, 1)), target(40'000);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  pair.net.frames_per_step = 3;
  for (int i = 0; i < 5; ++i) pair.turn();
  pair.net.unreachable.insert(kRail0);
  pair.net.cut(kRail0);
  for (int i = 0; i < 100; ++i) pair.turn(10ms);
  EXPECT_TRUE(pair.completions[1].empty());
  pair.net.unreachable.clear();
  const Instant back = pair.now;
  ASSERT_TRUE(pair.run_until_completions(1, 1));
  EXPECT_EQ(source.bytes, target.bytes);
  EXPECT_LE(pair.now - back, 250ms);
}

TEST(Session, PeerIsDownAfterItsTimeoutAndBothEndsAreTold) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  Buffer target(100'000);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  pair.net.unreachable = {kRail0, kRail1, {{0}, {1}}, {{1}, {0}}};
  pair.net.cut(kRail0), pair.net.cut(kRail1);
  for (int i = 0; i < 560; ++i) pair.turn(10ms);
  for (int side : {0, 1}) {
    EXPECT_EQ(pair.ends[side]->state(), SessionState::kPeerDown);
    EXPECT_NE(pair.ends[side]->why_down().find("rank " + std::to_string(1 - side)), std::string::npos)
        << pair.ends[side]->why_down();
  }
  ASSERT_EQ(pair.completions[1].size(), 1u);
  EXPECT_EQ(pair.completions[1][0].status.error().fault, Fault::kPeerDown);
  EXPECT_EQ(pair.ends[0]->send(kGroup, kStream, target.all(), 0, 1).error().fault, Fault::kPeerDown);
}

TEST(Session, ADeathIsCertainAlsoWhereANicHadDiedBefore) {
  for (const int side : {0, 1}) {
    Pair pair(2);
    ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
    pair.net.unreachable = {kRail1, PathId{{0}, {1}}, PathId{{1}, {0}}};
    pair.net.cut(kRail1);
    pair.turn();
    pair.net.deserted.insert(kRail0);
    pair.net.cut(kRail0);
    const auto down_after = [&](Duration limit) {
      for (const Instant end = pair.now + limit; pair.now < end;) pair.ends[side]->step(pair.now += 1ms);
      return pair.ends[side]->state() == SessionState::kPeerDown;
    };
    EXPECT_FALSE(down_after(2s)) << "its control connection is there";
    pair.ends[side]->on_control_gone();
    EXPECT_TRUE(down_after(2s));
    EXPECT_NE(pair.ends[side]->why_down().find("its process is gone"), std::string::npos);
  }
}

TEST(Session, AbortEndsOneGroupAtBothEndsAndLeavesTheOther) {
  constexpr GroupId kOther{8};
  Pair pair(2);
  for (auto& end : pair.ends) end->join(kOther, Secret{});
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  Buffer doomed(pattern(60'000, 1)), doomed_target(60'000), source(pattern(60'000, 2)), target(60'000);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, doomed_target.all(), 0, 1));
  ASSERT_TRUE(pair.ends[1]->receive(kOther, kStream, target.all(), 0, 2));
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, doomed.all(), 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kOther, kStream, source.all(), 0, 2));
  pair.net.frames_per_step = 2;
  for (int i = 0; i < 6; ++i) pair.turn();
  pair.ends[0]->abort(kGroup);
  ASSERT_TRUE(pair.run_until_completions(2, 2));
  EXPECT_EQ(source.bytes, target.bytes);
  for (int side : {0, 1})
    for (const Completion& done : pair.completions[side]) EXPECT_EQ(done.status.has_value(), done.group == kOther);
  // The window moves on: what was abandoned leaves no gap.
  Buffer more(pattern(2'000'000, 3)), more_target(2'000'000);
  pair.net.frames_per_step = 1000;
  ASSERT_TRUE(pair.ends[1]->receive(kOther, kStream, more_target.all(), 0, 3));
  ASSERT_TRUE(pair.ends[0]->send(kOther, kStream, more.all(), 0, 3));
  ASSERT_TRUE(pair.run_until_completions(3, 3));
  EXPECT_EQ(more.bytes, more_target.bytes);
}

TEST(Session, DrainLosesAndRepeatsNothingAndUndrainReturns) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  Buffer source(pattern(200'000, 1)), target(200'000);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  pair.net.frames_per_step = 3;
  for (int i = 0; i < 5; ++i) pair.turn();
  pair.ends[1]->drain({1}, pair.now);
  ASSERT_TRUE(pair.run_until_completions(1, 1));
  ASSERT_TRUE(pair.run([&] {
    return pair.ends[0]->paths()[1].state == PathState::kDrained &&
           pair.ends[1]->paths()[1].state == PathState::kDrained;
  }));
  EXPECT_EQ(source.bytes, target.bytes);
  EXPECT_EQ(pair.telemetry[0].counters.replayed_chunks + pair.telemetry[0].counters.resent_chunks, 0u);
  pair.run([] { return false; }, 1s, 10ms);
  EXPECT_EQ(pair.ends[0]->paths()[1].state, PathState::kDrained);
  pair.ends[1]->undrain({1}, pair.now);
  EXPECT_TRUE(pair.run([&] { return pair.all_up(); }));
}

// A path can look healthy and carry nothing: its peer did not read when the NIC died.
TEST(Session, ControlTellsOfAnUndrainedNicUntilAPathIsHeardFrom) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  pair.ends[0]->drain({1}, pair.now);
  pair.run([] { return false; }, 3s, 1ms);
  int& told = pair.notices.sent[{ProcessId{2}, FrameType::kNicState}];
  told = 0;
  pair.ends[0]->undrain({1}, pair.now);
  for (int i = 0; i < 1000; ++i) pair.ends[0]->step(pair.now += 1ms);  // the other end does not run
  EXPECT_GE(told, 3);
  pair.run([] { return false; }, 3s, 1ms);
  told = 0;
  pair.run([] { return false; }, 3s, 1ms);
  EXPECT_EQ(told, 0);
}

TEST(Session, FlappingPathReturnsEverMoreRarely) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  std::uint64_t trusted_first = 0;
  for (int i = 0; i < 6000; ++i) {  // a minute
    pair.turn(10ms);
    if (pair.ends[0]->paths()[1].state == PathState::kUp) pair.net.cut(kRail1);
    if (i == 600) trusted_first = pair.count(EventKind::kPathTrusted, 0);
  }
  EXPECT_LE(pair.count(EventKind::kPathTrusted, 0), 12u);
  EXPECT_GE(trusted_first, 3u);
}

TEST(Session, FinishFlushesAndLeavesWithoutAlarm) {
  Pair pair(2);
  Buffer source(pattern(40'000, 1)), target(40'000);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  pair.ends[0]->finish(pair.now);
  ASSERT_TRUE(pair.run([&] { return pair.ends[0]->state() == SessionState::kFinished; }));
  EXPECT_EQ(source.bytes, target.bytes);
  ASSERT_TRUE(pair.run([&] { return pair.ends[1]->state() == SessionState::kFinished; }));
  EXPECT_EQ(pair.count(EventKind::kPeerDown, 1), 0u);
}

TEST(Session, AGoodbyeWaitsForAPath) {
  for (const int first : {0, 1}) {
    Pair pair(2);
    ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
    for (const PathId rail : {kRail0, kRail1}) pair.net.cut(rail);
    pair.ends[first]->finish(pair.now);
    ASSERT_TRUE(pair.run([&] { return pair.ends[1 - first]->state() != SessionState::kActive; }));
    EXPECT_EQ(pair.ends[1 - first]->state(), SessionState::kFinished) << pair.ends[1 - first]->why_down();
    EXPECT_EQ(pair.ends[first]->state(), SessionState::kFinished);
    EXPECT_LT(pair.now - Instant{1s}, 1s);
  }
}

TEST(Session, AGoodbyeDoesNotWaitForWhatBelongsToNobody) {
  Pair pair(1);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  Buffer source(pattern(10'000, 1));
  pair.net.silent.insert(kRail0);
  ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  pair.turn();
  pair.ends[0]->abort(kGroup);
  pair.ends[0]->finish(pair.now);
  EXPECT_TRUE(pair.run([&] { return pair.ends[0]->state() == SessionState::kFinished; }, 1100ms));
}

TEST(Session, NoGoodbyeIsOwedWhereNoPathEverWas) {
  Pair pair(2);
  pair.net.unreachable = {kRail0, kRail1, PathId{{0}, {1}}, PathId{{1}, {0}}};
  pair.turn();
  pair.ends[0]->finish(pair.now);
  pair.turn();
  EXPECT_EQ(pair.ends[0]->state(), SessionState::kFinished);
}

TEST(Session, GroupWithAnotherSecretMovesNothing) {
  constexpr GroupId kOther{8};
  Pair pair(1);
  Secret wrong{};
  wrong[0] = std::byte{1};
  pair.ends[0]->join(kOther, Secret{});
  pair.ends[1]->join(kOther, wrong);
  Buffer source(pattern(100, 1)), target(100);
  ASSERT_TRUE(pair.ends[1]->receive(kOther, kStream, target.all(), 0, 1));
  ASSERT_TRUE(pair.ends[0]->send(kOther, kStream, source.all(), 0, 1));
  pair.run([] { return false; }, 100ms);
  EXPECT_TRUE(pair.completions[1].empty());
  EXPECT_EQ(target.bytes, Bytes(100));
  EXPECT_GE(pair.telemetry[0].counters.refused_frames, 1u);
}

TEST(Session, TooManyPendingOperationsAreBusyNotLost) {
  SessionConfig config = Pair::small_chunks();
  config.limits.stream_operations_max = 4;
  Pair pair(1, config);
  Buffer source(pattern(20'000, 1)), target(20'000);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  EXPECT_EQ(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1).error().fault, Fault::kBusy);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  EXPECT_EQ(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1).error().fault, Fault::kBusy);
  EXPECT_TRUE(pair.run_until_completions(4, 4));
}

}  // namespace
}  // namespace r2ccl
