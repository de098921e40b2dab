// Goal: a chunk takes the path that finishes it first, and no path holds more than it needs.

#include "session/streams/stripe.h"

#include <gtest/gtest.h>

#include <vector>

#include "session/rate.h"

namespace r2ccl {
namespace {

const SessionLimits kLimits;
constexpr Instant kNow{10s};

StripeCandidate path(double rate, std::uint64_t in_flight, double weight = 1.0) {
  return {.rate_bytes_s = rate,
          .distance_weight = weight,
          .in_flight_bytes = in_flight,
          .min_rtt = 0ns,
          .try_at = kNow + 1ms};
}

TEST(Stripe, TakesThePathThatFinishesFirst) {
  const std::vector<StripeCandidate> paths{path(100e6, 300'000), path(50e6, 100'000), path(100e6, 240'000)};
  EXPECT_EQ(choose_path(paths, 50'000, kLimits, kNow, 0), 2u);  // 3.5, 3.0 and 2.9 ms
}

TEST(Stripe, TiesGoToTheFirstFromHomeOn) {
  const std::vector<StripeCandidate> paths{path(1e8, 0), path(1e8, 0), path(1e8, 0)};
  for (const std::size_t home : {0u, 1u, 2u, 7u}) EXPECT_EQ(choose_path(paths, 1000, kLimits, kNow, home), home % 3);
  EXPECT_EQ(choose_path(std::vector{path(1e8, 0), path(1e8, 9000), path(1e6, 0)}, 1000, kLimits, kNow, 1), 0u);
}

TEST(Stripe, DistanceCounts) {
  EXPECT_EQ(choose_path(std::vector{path(1e8, 0, 1.15), path(1e8, 0, 1.0)}, 100'000, kLimits, kNow, 0), 1u);
}

TEST(Stripe, WaitsForTheFastPathRatherThanUseASlowOne) {
  const std::vector<StripeCandidate> paths{path(100e6, 900'000), path(1e6, 0)};
  EXPECT_EQ(choose_path(paths, 256'000, kLimits, kNow, 0), std::nullopt);
}

TEST(Stripe, AnAvoidedPathGetsAChunkNowAndThen) {
  std::vector<StripeCandidate> paths{path(100e6, 0), path(1e6, 0)};
  EXPECT_EQ(choose_path(paths, 256'000, kLimits, kNow, 0), 0u);
  paths[1].try_at = kNow;
  EXPECT_EQ(choose_path(paths, 256'000, kLimits, kNow, 0), 1u);
}

// It would be none: the rate stays as it was, and the next large chunk comes too early.
TEST(Stripe, ASmallChunkIsNoTry) {
  std::vector<StripeCandidate> paths{path(100e6, 0), path(1e6, 0)};
  paths[1].try_at = kNow;
  EXPECT_EQ(choose_path(paths, RateMeter::kChunkMin - 1, kLimits, kNow, 0), 0u);
  EXPECT_EQ(choose_path(paths, RateMeter::kChunkMin, kLimits, kNow, 0), 1u);
}

TEST(Stripe, AnEmptyPathTakesAnyChunkButNeverMoreThanItsShare) {
  EXPECT_EQ(choose_path(std::vector{path(1e3, 0)}, 4 << 20, kLimits, kNow, 0), 0u);
  EXPECT_EQ(choose_path(std::vector{path(1e3, 128 * 1024)}, 1, kLimits, kNow, 0), std::nullopt);
}

TEST(Stripe, HoldsTenMillisecondsOfASlowPathAndOneOfAFastOne) {
  EXPECT_EQ(in_flight_max(path(1e6, 0), kLimits), 128u * 1024);
  EXPECT_EQ(in_flight_max(path(60e6, 0), kLimits), 600'000u);
  EXPECT_EQ(in_flight_max(path(500e6, 0), kLimits), 2048u * 1024);
  EXPECT_EQ(in_flight_max(path(50e9, 0), kLimits), 50'000'000u);
  StripeCandidate far = path(500e6, 0);
  far.min_rtt = 20ms;
  EXPECT_EQ(in_flight_max(far, kLimits), 2048u * 1024 + 10'000'000u);
}

}  // namespace
}  // namespace r2ccl
