// Bounds how long a fault in the middle of traffic holds a session up: faults at either end, on random NICs, one after
// the other.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "env/seeded_random.h"
#include "tests/loopback/support/pair.h"
#include "tests/loopback/support/stall.h"

namespace r2ccl::loopback {
namespace {

constexpr int kFaults = 24;
constexpr std::uint64_t kSeed = 2;

struct Promise {
  FaultKind kind;
  Duration lasting;
  Duration median;
  Duration worst;
};

// The fault's record and where it happened; faults are counted from the end of the log before it was injected.
std::optional<Event> find_fault(const EventLog& log, std::size_t from) {
  for (const Event& event : log.copy(from))
    if (event.kind == EventKind::kFaultInjected) return event;
  return std::nullopt;
}

void print(const char* what, const std::vector<Duration>& values) {
  fmt::print("  {:<12} median {:8.2f} ms   worst {:8.2f} ms\n", what, to_ms(median(values)),
             to_ms(*std::ranges::max_element(values)));
}

class StallTest : public testing::Test {
 protected:
  void hold_up(const Promise& promise) {
    Pair pair({.shape = {.streams = 4, .window = 6, .sizes = {512 * 1024}}});
    SeededRandom random(kSeed);
    std::vector<Duration> next_chunk, repaired, message_gap;
    std::size_t caught = 0;
    for (int number = 0; number < kFaults; ++number) {
      ASSERT_TRUE(pair.traffic_goes_on(20 + random.below(20))) << pair.traffic_failure();
      const std::size_t end = random.below(2);
      FaultSpec fault;
      fault.kind = promise.kind;
      fault.nic = NicId{static_cast<std::uint8_t>(random.below(kNics))};
      fault.lasting = promise.lasting;
      const std::size_t before = pair.log(end).size();
      ASSERT_EQ(pair.inject(end, fault), "");
      ASSERT_TRUE(pair.settle(20s)) << "the path does not return; fault " << number << " on NIC "
                                    << int(fault.nic.value);
      ASSERT_TRUE(pair.traffic_goes_on(20)) << pair.traffic_failure();
      const auto injected = find_fault(pair.log(end), before);
      ASSERT_TRUE(injected);
      const bool lower = (pair.here().self() < pair.here().other()) == (end == 0);
      const auto stall = measure_stall({pair.log(0).copy(), pair.log(1).copy()}, *injected, lower);
      ASSERT_TRUE(stall) << "chunks that were on the broken path never arrived";
      next_chunk.push_back(stall->next_chunk);
      if (stall->chunks_caught != 0) repaired.push_back(stall->repaired);
      message_gap.push_back(stall->message_gap);
      caught += stall->chunks_caught;
    }
    EXPECT_EQ(pair.stop_traffic(), "");
    fmt::print("{} x {} in the middle of traffic (seed {}); {} caught {} chunks on the broken path:\n", kFaults,
               to_text(promise.kind), kSeed, repaired.size(), caught);
    ASSERT_GE(repaired.size(), static_cast<std::size_t>(kFaults / 6)) << "the faults did not hit the traffic";
    print("next chunk", next_chunk);
    print("repaired", repaired);
    print("message gap", message_gap);
    for (const std::vector<Duration>& values : {next_chunk, repaired}) {
      EXPECT_LE(median(values), promise.median);
      EXPECT_LE(*std::ranges::max_element(values), promise.worst);
    }
    EXPECT_EQ(pair.end(), "");
  }
};

TEST_F(StallTest, ResetHoldsASessionUpForAtMost50MsInTheMedian) {
  hold_up({.kind = FaultKind::kReset, .lasting = 0ms, .median = 50ms, .worst = 100ms});
}

TEST_F(StallTest, BlackHoleHoldsASessionUpForAtMost250MsInTheMedian) {
  hold_up({.kind = FaultKind::kBlackhole, .lasting = 700ms, .median = 250ms, .worst = 500ms});
}

}  // namespace
}  // namespace r2ccl::loopback
