// A thousand random faults of every kind, several at once, at both ends, under traffic in both directions: every
// byte of every message is right. R2CCL_LOOPBACK_SEED=n repeats a run's faults (not its timing).

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "env/seeded_random.h"
#include "tests/loopback/support/pair.h"

namespace r2ccl::loopback {
namespace {

constexpr int kFaults = 1000;
constexpr Duration kEvery = 50ms;
constexpr Duration kLongest = 400ms;  // far below the peer time-out, also when all NICs are hit at once

std::uint64_t choose_seed() {
  const char* text = std::getenv("R2CCL_LOOPBACK_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

FaultSpec draw_fault(SeededRandom& random) {
  constexpr std::array kKinds{FaultKind::kReset, FaultKind::kBlackhole, FaultKind::kCable,
                              FaultKind::kDown,  FaultKind::kSlow,      FaultKind::kFlap};
  FaultSpec fault;
  fault.kind = kKinds[random.below(kKinds.size())];
  fault.nic = NicId{static_cast<std::uint8_t>(random.below(kNics))};
  fault.lasting = fault.kind == FaultKind::kReset ? Duration{} : random.between(5ms, kLongest);
  if (fault.kind == FaultKind::kSlow) fault.rate_bytes_s = random.between(1'000'000, 50'000'000);
  if (fault.kind == FaultKind::kFlap) fault.period = random.between(Duration(5ms), Duration(100ms));
  return fault;
}

TEST(RandomFaultsTest, AThousandFaultsLoseRepeatAndDamageNothing) {
  const std::uint64_t seed = choose_seed();
  fmt::print("seed {}\n", seed);
  SeededRandom random(seed);
  Pair pair({.shape = {.streams = 4, .window = 3, .sizes = {8, 3000, 8192, 70'000, 300'001, 1 << 20}}});
  std::map<FaultKind, int> kinds;
  Instant next = clock_now();
  for (int number = 0; number < kFaults && pair.traffic_failure().empty(); ++number) {
    // Between two faults the test only waits; that the traffic fails ends the wait.
    pair.here().driver().wait_until([&](Engine&) { return !pair.traffic_failure().empty(); }, next);
    next += random.between(Duration::zero(), 2 * kEvery);
    const FaultSpec fault = draw_fault(random);
    ++kinds[fault.kind];
    ASSERT_EQ(pair.inject(random.below(2), fault), "");
  }
  EXPECT_EQ(pair.traffic_failure(), "") << "seed " << seed;
  EXPECT_TRUE(pair.settle(30s)) << "not all paths returned; seed " << seed;
  EXPECT_EQ(pair.stop_traffic(), "") << "seed " << seed;
  std::size_t downs = 0;
  for (std::size_t end = 0; end < 2; ++end) {
    EXPECT_GE(pair.log(end).count_of(EventKind::kFaultInjected), static_cast<std::size_t>(kFaults / 3));
    EXPECT_EQ(pair.log(end).count_of(EventKind::kPeerDown), 0u);
    const Counters counters = pair.tell(end, {.kind = Command::Kind::kStatus}).counters;
    downs += counters.paths_down;
    fmt::print(
        "end {}: {} messages, {:.1f} MiB checked; {} paths down; {} chunks replayed, {} hedged, {} resent, {} "
        "duplicates\n",
        end, pair.checked_messages(end), static_cast<double>(pair.checked_bytes(end)) / (1 << 20), counters.paths_down,
        counters.replayed_chunks, counters.hedged_chunks, counters.resent_chunks, counters.duplicate_chunks);
  }
  EXPECT_GT(downs, static_cast<std::size_t>(kFaults / 2)) << "the faults did not hit";
  EXPECT_EQ(kinds.size(), 6u);
  EXPECT_EQ(pair.end(), "");
}

}  // namespace
}  // namespace r2ccl::loopback
