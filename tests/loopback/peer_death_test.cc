// A process that dies is named at once, not after the peer time-out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/loopback/support/pair.h"

namespace r2ccl::loopback {
namespace {

constexpr Duration kNoticeWithin = 2s;

class PeerDeathTest : public testing::TestWithParam<std::size_t> {};

TEST_P(PeerDeathTest, KilledProcessIsReportedWithItsRankWithinTwoSeconds) {
  Pair pair({.traffic = false, .root = GetParam()});
  std::vector<std::byte> memory(1 << 20);
  HostRegion region(memory.data(), memory.size());
  const auto posted = pair.here().with_session(
      [&](Session& session) { return session.receive(kGroup, StreamId{1}, {&region, 0, memory.size()}, 0, 7); });
  ASSERT_TRUE(posted);

  const Instant killed_at = clock_now();
  ASSERT_EQ(::kill(pair.child(), SIGKILL), 0);
  std::vector<Completion> completions;
  const auto ended = [&](Engine& engine) {
    completions = engine.session(pair.here().other()).take_completions();
    return !completions.empty();
  };
  EXPECT_TRUE(pair.here().driver().wait_until(ended, killed_at + 20s));
  EXPECT_LE(clock_now() - killed_at, kNoticeWithin);
  ASSERT_EQ(completions.size(), 1u);
  ASSERT_FALSE(completions[0].status);
  EXPECT_EQ(completions[0].status.error().fault, Fault::kPeerDown);
  EXPECT_THAT(completions[0].status.error().what, testing::HasSubstr("rank 1"));
  EXPECT_EQ(pair.log(0).count_of(EventKind::kPeerDown), 1u);
  EXPECT_EQ(pair.here().with_session([](Session& session) { return session.state(); }), SessionState::kPeerDown);
}

INSTANTIATE_TEST_SUITE_P(WithTheRootAtEitherEnd, PeerDeathTest, testing::Values(0u, 1u));

}  // namespace
}  // namespace r2ccl::loopback
