// Goal: two sessions lose, repeat and damage nothing whatever happens to their paths, and part as they should.

#include <gtest/gtest.h>

#include "testing/session_pair.h"

namespace r2ccl {
namespace {

using namespace testing;

TEST(Session, SilentPathIsHedgedThenFencedWhileOthersSpeak) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  TestBuffer source(pattern(40'000, 1)), target(40'000);
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
  TestBuffer source(pattern(100, 1));
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
  TestBuffer source(pattern(100'000, 1)), target(100'000);
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
  TestBuffer source(pattern(40'000, 1)), target(40'000);
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
  TestBuffer target(100'000);
  ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  pair.net.unreachable = {kRail0, kRail1, {{0}, {1}}, {{1}, {0}}};
  pair.net.cut(kRail0);
  pair.net.cut(kRail1);
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
  TestBuffer doomed(pattern(60'000, 1)), doomed_target(60'000), source(pattern(60'000, 2)), target(60'000);
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
  TestBuffer more(pattern(2'000'000, 3)), more_target(2'000'000);
  pair.net.frames_per_step = 1000;
  ASSERT_TRUE(pair.ends[1]->receive(kOther, kStream, more_target.all(), 0, 3));
  ASSERT_TRUE(pair.ends[0]->send(kOther, kStream, more.all(), 0, 3));
  ASSERT_TRUE(pair.run_until_completions(3, 3));
  EXPECT_EQ(more.bytes, more_target.bytes);
}

TEST(Session, DrainLosesAndRepeatsNothingAndUndrainReturns) {
  Pair pair(2);
  ASSERT_TRUE(pair.run([&] { return pair.all_up(); }));
  TestBuffer source(pattern(200'000, 1)), target(200'000);
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
  TestBuffer source(pattern(40'000, 1)), target(40'000);
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
  TestBuffer source(pattern(10'000, 1));
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
  TestBuffer source(pattern(100, 1)), target(100);
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
  TestBuffer source(pattern(20'000, 1)), target(20'000);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1));
  EXPECT_EQ(pair.ends[0]->send(kGroup, kStream, source.all(), 0, 1).error().fault, Fault::kBusy);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1));
  EXPECT_EQ(pair.ends[1]->receive(kGroup, kStream, target.all(), 0, 1).error().fault, Fault::kBusy);
  EXPECT_TRUE(pair.run_until_completions(4, 4));
}

}  // namespace
}  // namespace r2ccl
