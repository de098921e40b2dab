#include "health/comeback.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace r2ccl {
namespace {

constexpr Instant kStart = Instant{} + 1000s;

Comeback opened_once() {
  Comeback comeback{ComebackLimits{}};
  comeback.on_down(kStart);
  comeback.on_open(kStart);
  return comeback;
}

TEST(Comeback, FirstAttemptIsDueAtOnceAndNeedsNoProbation) {
  Comeback comeback{ComebackLimits{}};
  comeback.on_down(kStart);
  EXPECT_EQ(comeback.next_attempt(), kStart);
  EXPECT_EQ(comeback.on_open(kStart + 1ms), kStart + 1ms);
  EXPECT_EQ(comeback.probation(), 0ms);
}

TEST(Comeback, APathThatNeverWorkedIsTriedWithTheSameBackOff) {
  Comeback comeback{ComebackLimits{}};
  comeback.on_down(kStart);
  comeback.on_attempt_failed(kStart);
  EXPECT_EQ(comeback.next_attempt(), kStart + 100ms);
  comeback.on_attempt_failed(kStart);
  EXPECT_EQ(comeback.next_attempt(), kStart + 200ms);
}

TEST(Comeback, RetryGrowsFrom100MsTo30SForEver) {
  Comeback comeback = opened_once();
  Instant now = kStart + 1s;
  comeback.on_down(now);
  Duration expected = 100ms;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(comeback.next_attempt() - now, expected) << "attempt " << i;
    now = comeback.next_attempt() + 7ms;
    comeback.on_attempt_failed(now);
    expected = std::min<Duration>(2 * expected, 30s);
  }
  EXPECT_EQ(expected, 30s);
}

TEST(Comeback, AHintStartsOverAt100Ms) {
  Comeback comeback = opened_once();
  comeback.on_down(kStart);
  for (int i = 0; i < 20; ++i) comeback.on_attempt_failed(kStart);
  ASSERT_EQ(comeback.next_attempt(), kStart + 30s);
  comeback.on_hint(kStart + 1s);
  EXPECT_EQ(comeback.next_attempt(), kStart + 1100ms);
  comeback.on_attempt_failed(kStart + 1100ms);
  EXPECT_EQ(comeback.next_attempt(), kStart + 1300ms);
}

TEST(Comeback, AHintDuringAnAttemptShortensTheNextWait) {
  Comeback comeback = opened_once();
  comeback.on_down(kStart);
  for (int i = 0; i < 20; ++i) comeback.on_attempt_failed(kStart);
  comeback.on_hint(kStart + 31s);
  comeback.on_attempt_failed(kStart + 32s);
  EXPECT_EQ(comeback.next_attempt(), kStart + 32s + 100ms);
}

TEST(Comeback, ManyHintsNeverPutAnAttemptOff) {
  Comeback comeback = opened_once();
  comeback.on_down(kStart);
  for (Duration t{}; t <= 200ms; t += 1ms) {
    comeback.on_hint(kStart + t);
    ASSERT_LE(comeback.next_attempt(), kStart + 100ms);
  }
}

TEST(Comeback, DownSaidTwiceCountsAsAFailedAttempt) {
  Comeback comeback = opened_once();
  comeback.on_down(kStart);
  comeback.on_down(kStart);
  EXPECT_EQ(comeback.next_attempt(), kStart + 200ms);
  EXPECT_EQ(comeback.probation(), 500ms);
  EXPECT_EQ(comeback.relapses(), 0);
}

TEST(Comeback, EachRelapseDoublesProbationUpTo60S) {
  Comeback comeback = opened_once();
  Instant now = kStart + 100s;
  comeback.on_down(now);
  Duration expected = 500ms;
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(comeback.on_open(now), now + expected) << "relapse " << i;
    ASSERT_EQ(comeback.relapses(), i);
    if (i % 2 == 0) {  // within probation and shortly after it, in turn
      now += expected / 2;
    } else {
      now += expected;
      comeback.on_trusted(now);
      now += 9999ms;
    }
    comeback.on_down(now);
    expected = std::min<Duration>(2 * expected, 60s);
  }
  EXPECT_EQ(comeback.probation(), 60s);
}

TEST(Comeback, GoodTimeHalvesProbationDownToItsMinimum) {
  for (const auto& [good, expected] :
       {std::pair<Duration, Duration>{10s, 16s}, {19s, 16s}, {20s, 8s}, {50s, 1s}, {60s, 500ms}, {10000s, 500ms}}) {
    Comeback comeback = opened_once();
    comeback.on_down(kStart);
    for (int i = 0; i < 6; ++i) {
      comeback.on_open(kStart);
      comeback.on_down(kStart);
    }
    ASSERT_EQ(comeback.probation(), 32s);
    comeback.on_open(kStart);
    comeback.on_trusted(kStart + 32s);
    comeback.on_down(kStart + 32s + good);
    EXPECT_EQ(comeback.probation(), expected) << to_seconds(good);
    EXPECT_EQ(comeback.relapses(), 6);
  }
}

TEST(Comeback, AFlappingPathReturnsAFewTimesAMinuteAtMost) {
  // 0.5 + 1 + 2 + ... + 32 s of probation fill a minute, so a path that dies at once returns at most 8 times in one.
  constexpr std::size_t kReturnsPerMinute = 8;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Comeback comeback = opened_once();
    const Duration up_max = Duration(1 + random() % 40'000'000'000ull);
    std::deque<Instant> returns;
    Instant now = kStart;
    while (now < kStart + 3600s) {
      comeback.on_down(now);
      now = comeback.next_attempt();
      now = comeback.on_open(now);
      comeback.on_trusted(now);
      returns.push_back(now);
      while (returns.front() <= now - 60s) returns.pop_front();
      ASSERT_LE(returns.size(), kReturnsPerMinute);
      now += Duration(random() % static_cast<std::uint64_t>(up_max.count()));
    }
  }
}

}  // namespace
}  // namespace r2ccl
