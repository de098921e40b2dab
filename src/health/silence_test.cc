#include "health/silence.h"

#include <gtest/gtest.h>

#include <random>

namespace r2ccl {
namespace {

constexpr Instant kStart = Instant{} + 1000s;

Progress sample(std::uint64_t acked, std::uint64_t unacked, Duration age, Duration srtt = 1ms) {
  return {.acked_bytes = acked, .unacked_bytes = unacked, .last_ack_age = age, .srtt = srtt, .min_rtt = srtt};
}

// A path whose bytes stop being acknowledged at kStart, sampled every millisecond.
struct DeadPath {
  Silence silence{SilenceLimits{}};
  Duration srtt = 1ms;
  Duration reached_suspect{-1};
  Duration reached_silent{-1};

  void run(Duration until) {
    for (Duration t{}; t <= until; t += 1ms) {
      const Hearing hearing = silence.on_sample(kStart + t, sample(100, 50, t, srtt));
      if (hearing == Hearing::kSuspect && reached_suspect < 0ms) reached_suspect = t;
      if (hearing == Hearing::kSilent && reached_silent < 0ms) reached_silent = t;
    }
  }
};

TEST(Silence, UnackedBytesMakeItSuspectAt25MsAndSilentAt150Ms) {
  DeadPath path;
  path.run(200ms);
  EXPECT_EQ(path.reached_suspect, 25ms);
  EXPECT_EQ(path.reached_silent, 150ms);
  EXPECT_EQ(path.silence.silent_for(kStart + 200ms), 200ms);
}

TEST(Silence, LongRoundTripsStretchBothThresholds) {
  DeadPath path;
  path.srtt = 50ms;
  path.run(500ms);
  EXPECT_EQ(path.reached_suspect, 200ms);
  EXPECT_EQ(path.reached_silent, 400ms);  // twice the suspect threshold, above 150 ms
}

TEST(Silence, NothingUnackedIsNoFaultHoweverLong) {
  Silence silence{SilenceLimits{}};
  for (Duration t{}; t < 100s; t += 1s) {
    EXPECT_EQ(silence.on_sample(kStart + t, sample(100, 0, t)), Hearing::kFine);
    EXPECT_EQ(silence.next_sample(kStart + t), kNever);
    EXPECT_EQ(silence.silent_for(kStart + t), 0ms);
  }
}

TEST(Silence, FirstBytesAfterALongIdleTimeStartTheClockAnew) {
  Silence silence{SilenceLimits{}};
  silence.on_sample(kStart, sample(100, 0, 10s));
  EXPECT_EQ(silence.on_sample(kStart + 1ms, sample(100, 50, 10s)), Hearing::kFine);
  EXPECT_EQ(silence.on_sample(kStart + 25ms, sample(100, 50, 10s)), Hearing::kFine);
  EXPECT_EQ(silence.on_sample(kStart + 26ms, sample(100, 50, 10s)), Hearing::kSuspect);
}

TEST(Silence, AnAcknowledgementEndsSuspicionAndSilence) {
  for (const Duration dead_for : {30ms, 160ms}) {
    DeadPath path;
    path.run(dead_for);
    ASSERT_NE(path.silence.hearing(), Hearing::kFine);
    const Instant now = kStart + dead_for + 1ms;
    // A duplicate acknowledgement: no byte advances, but the other end's stack spoke.
    EXPECT_EQ(path.silence.on_sample(now, sample(100, 50, 0ms)), Hearing::kFine);
    EXPECT_EQ(path.silence.silent_for(now), 0ms);
  }
}

TEST(Silence, NothingUnackedAnyMoreEndsSuspicion) {
  DeadPath path;
  path.run(100ms);
  ASSERT_EQ(path.silence.hearing(), Hearing::kSuspect);
  EXPECT_EQ(path.silence.on_sample(kStart + 101ms, sample(150, 0, 1ms)), Hearing::kFine);
}

TEST(Silence, NeverLeavesFineWhileAcknowledgedBytesAdvance) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Silence silence{SilenceLimits{}};
    Instant now = kStart;
    std::uint64_t acked = 0;
    for (int i = 0; i < 500; ++i) {
      now += Duration(random() % (300 * 1'000'000ull));
      acked += 1 + random() % 1000;
      const Duration age(random() % (400 * 1'000'000ull));  // even where the ages are off
      ASSERT_EQ(silence.on_sample(now, sample(acked, random() % 100000, age)), Hearing::kFine);
    }
  }
}

TEST(Silence, DownIsNeverReachedBeforeTwiceTheSuspectThreshold) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Duration srtt(random() % (100 * 1'000'000ull));
    const SilenceLimits limits{.suspect_min = Duration(1 + random() % 100'000'000),
                               .down = Duration(random() % 200'000'000)};
    const Duration suspect = std::max(limits.suspect_min, 4 * srtt);
    Silence silence(limits);
    Duration t{};
    while (silence.on_sample(kStart + t, sample(9, 9, t, srtt)) != Hearing::kSilent) {
      const Instant next = silence.next_sample(kStart + t);
      ASSERT_GT(next, kStart + t);
      t = next - kStart;
      ASSERT_LT(t, 10s);
    }
    EXPECT_GE(t, 2 * suspect);
    EXPECT_EQ(t, std::max(limits.down, 2 * suspect));  // the timers alone find it to the nanosecond
  }
}

TEST(Silence, AStoppedProcessFindsADeadPathDeadAfterWaking) {
  Silence silence{SilenceLimits{}};
  silence.on_sample(kStart, sample(100, 50, 0ms));
  // Stopped for 5 s; the kernel went on and got nothing for the last 4.9 s.
  Instant now = kStart + 5s;
  EXPECT_EQ(silence.on_sample(now, sample(120, 30, 4900ms)), Hearing::kFine);  // bytes advanced since
  EXPECT_LE(silence.next_sample(now), now);
  EXPECT_EQ(silence.on_sample(now, sample(120, 30, 4900ms)), Hearing::kSuspect);
  EXPECT_EQ(silence.silent_for(now), 4900ms);
  EXPECT_EQ(silence.on_sample(now + 24ms, sample(120, 30, 4924ms)), Hearing::kSuspect);
  EXPECT_EQ(silence.on_sample(now + 25ms, sample(120, 30, 4925ms)), Hearing::kSilent);
}

TEST(Silence, AStoppedProcessFindsALivingPathFineAfterWaking) {
  Silence silence{SilenceLimits{}};
  silence.on_sample(kStart, sample(100, 50, 0ms));
  // Everything was acknowledged right after the stop; on waking fresh bytes are posted before the first sample.
  const Instant now = kStart + 5s;
  EXPECT_EQ(silence.on_sample(now, sample(150, 70, 4990ms)), Hearing::kFine);
  EXPECT_EQ(silence.on_sample(now + 2ms, sample(150, 70, 4992ms)), Hearing::kFine);
  EXPECT_EQ(silence.on_sample(now + 4ms, sample(220, 0, 1ms)), Hearing::kFine);
}

TEST(Silence, TimersComeOftenEnoughWhileBytesAreUnacked) {
  Silence silence{SilenceLimits{}};
  silence.on_sample(kStart, sample(100, 50, 0ms));
  EXPECT_EQ(silence.next_sample(kStart), kStart + 6250us);
  EXPECT_EQ(silence.next_sample(kStart + 24ms), kStart + 25ms);
}

}  // namespace
}  // namespace r2ccl
