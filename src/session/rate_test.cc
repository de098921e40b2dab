// Goal: the estimate follows what a path really does, soon, and is not fooled by bursts or small change.

#include "session/rate.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

constexpr std::uint32_t kChunk = 64 * 1024;

struct Line {
  RateMeter meter{100e6};
  Instant now{1s};
  // Two chunks always under way, acknowledged at the given rate.
  void run(double rate, Duration time) {
    meter.on_sent(now, kChunk);
    for (const Instant end = now + time; now < end;) {
      meter.on_sent(now, kChunk);
      now += std::chrono::duration_cast<Duration>(std::chrono::duration<double>(kChunk / rate));
      meter.on_acked(now, kChunk);
    }
    meter.on_lost(now, kChunk);
  }
  double rate() const { return meter.rate_bytes_s(now); }
};

TEST(RateMeter, FollowsASlowDownToATenthWithinATenthOfASecond) {
  Line line;
  line.run(500e6, 100ms);
  EXPECT_NEAR(line.rate(), 500e6, 25e6);
  line.run(50e6, 100ms);
  EXPECT_NEAR(line.rate(), 50e6, 5e6);
  line.run(500e6, 200ms);
  EXPECT_NEAR(line.rate(), 500e6, 50e6);
}

TEST(RateMeter, SilenceAloneLowersTheEstimate) {
  Line line;
  line.run(500e6, 100ms);
  line.meter.on_sent(line.now, kChunk);
  EXPECT_NEAR(line.meter.rate_bytes_s(line.now + 1ms), 500e6, 50e6);
  EXPECT_LE(line.meter.rate_bytes_s(line.now + 100ms), 60e6);
  EXPECT_LE(line.meter.rate_bytes_s(line.now + 1s), 10e6);
}

TEST(RateMeter, ABurstOfReceiptsIsNotSpeed) {
  Line line;
  line.run(50e6, 200ms);
  for (int i = 0; i < 20; ++i) {
    for (int k = 0; k < 8; ++k) line.meter.on_sent(line.now, kChunk);
    line.now += std::chrono::duration_cast<Duration>(std::chrono::duration<double>(8 * kChunk / 50e6));
    for (int k = 0; k < 8; ++k) line.meter.on_acked(line.now + k * 1us, kChunk);
  }
  EXPECT_NEAR(line.rate(), 50e6, 5e6);
}

TEST(RateMeter, IdleTimeDoesNotCount) {
  Line line;
  for (int i = 0; i < 100; ++i) {
    line.run(200e6, 3ms);
    line.now += 100ms;
  }
  EXPECT_NEAR(line.rate(), 200e6, 20e6);
}

TEST(RateMeter, ARestIsTenTimesTheLastEffort) {
  RateMeter meter(100e6);
  EXPECT_EQ(meter.try_at(), Instant{});
  meter.on_sent(Instant{1s}, 64 << 10);
  meter.on_sent(Instant{1s + 10ms}, 64 << 10);
  meter.on_acked(Instant{1s + 15ms}, 64 << 10);
  meter.on_acked(Instant{1s + 20ms}, 64 << 10);
  EXPECT_EQ(meter.try_at(), Instant{1s + 220ms});
  meter.on_sent(Instant{2s}, 64 << 10);
  meter.on_acked(Instant{2s + 10us}, 64 << 10);
  EXPECT_EQ(meter.try_at(), Instant{2s + 10us} + RateMeter::kRestLeast);
  meter.on_sent(Instant{3s}, 64 << 10);
  meter.on_lost(Instant{9s}, 64 << 10);
  EXPECT_EQ(meter.try_at(), Instant{9s} + RateMeter::kRestMost);
  meter.on_cut(Instant{9s});
  EXPECT_EQ(meter.try_at(), Instant{9s});
}

// Only tries are sent, with small messages between them, as to a path that others avoid.
TEST(RateMeter, AHealedPathIsKnownAgainWithinASecond) {
  for (const double healed : {12.5e6, 10e9}) {
    RateMeter meter(healed / 10);
    Instant now{1s};
    const std::uint32_t chunk = healed > 1e9 ? 512 << 10 : 64 << 10;
    const Duration takes(static_cast<Duration::rep>(chunk / healed * 1e9));
    for (; meter.rate_bytes_s(now) < healed / 2 && now < Instant{10s}; now += 50us) {
      meter.on_sent(now, 8);
      meter.on_acked(now, 8);
      if (now < meter.try_at()) continue;
      meter.on_sent(now, chunk);
      now += takes;
      meter.on_acked(now, chunk);
    }
    EXPECT_LT(now, Instant{2s}) << healed;
  }
}

TEST(RateMeter, TinyMessagesSayNothingAboutTheRate) {
  RateMeter meter(100e6);
  for (int i = 0; i < 1000; ++i) {
    const Instant at{Duration(i * 1000000)};
    meter.on_sent(at, 8);
    meter.on_acked(at + 500us, 8);
  }
  EXPECT_EQ(meter.rate_bytes_s(Instant{2s}), 100e6);
}

}  // namespace
}  // namespace r2ccl
