#include "lab/fault_clock.h"

#include <gtest/gtest.h>

namespace r2ccl::lab {
namespace {

constexpr std::uint64_t kRate = 62'500'000;
constexpr Duration kEnd = Duration::max();

FaultClock clock_of(std::string_view faults) {
  return {parse_faults(faults).value(), {.rate_bytes_s = kRate}};
}

// The NIC's state after the only change that is due.
std::string one(FaultClock& clock, Duration elapsed) {
  const std::vector<NicChange> changes = clock.step(elapsed);
  if (changes.size() != 1) return std::to_string(changes.size()) + " changes";
  return to_text(changes[0].state, kRate);
}

TEST(FaultClock, EveryKindDoesItsOwnAndHeals) {
  const std::pair<const char*, const char*> kinds[] = {
      {"down", "down"}, {"cable", "cable out"}, {"blackhole", "black hole"}, {"slow:50mbit", "slow 50 mbit/s"}};
  for (const auto& [kind, state] : kinds) {
    FaultClock clock = clock_of(std::string("at=2s server=1 nic=3 for=500ms kind=") + kind);
    EXPECT_EQ(clock.next(), 2s);
    EXPECT_TRUE(clock.step(1999ms).empty());
    EXPECT_EQ(one(clock, 2s), state);
    EXPECT_EQ(clock.next(), 2500ms);
    EXPECT_TRUE(clock.step(2499ms).empty());
    EXPECT_EQ(one(clock, 2500ms), "ok");
    EXPECT_EQ(clock.next(), kEnd);
    EXPECT_TRUE(clock.step(1h).empty());
  }
}

TEST(FaultClock, WithoutForItStays) {
  FaultClock clock = clock_of("at=0s server=1 nic=3 kind=cable");
  const std::vector<NicChange> changes = clock.step(0s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].server, ServerId{1});
  EXPECT_EQ(changes[0].nic, NicId{3});
  EXPECT_EQ(changes[0].why, "cable");
  EXPECT_FALSE(changes[0].reset);
  EXPECT_EQ(clock.next(), kEnd);
}

TEST(FaultClock, AResetHappensOnce) {
  FaultClock clock = clock_of("at=1s server=0 nic=0 kind=reset");
  const std::vector<NicChange> changes = clock.step(1s);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].reset);
  EXPECT_EQ(to_text(changes[0].state, kRate), "ok");
  EXPECT_EQ(clock.next(), kEnd);
}

TEST(FaultClock, AFlapBitesAndLetsGo) {
  FaultClock clock = clock_of("at=1s server=0 nic=0 kind=flap:200ms for=700ms");
  const std::vector<NicChange> first = clock.step(1000ms);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(to_text(first[0].state, kRate), "cable out");
  EXPECT_EQ(first[0].why, "flap every 200 ms");
  EXPECT_EQ(clock.next(), 1200ms);
  EXPECT_EQ(one(clock, 1200ms), "ok");
  const std::vector<NicChange> again = clock.step(1400ms);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(to_text(again[0].state, kRate), "cable out");
  EXPECT_EQ(again[0].why, "") << "told once";
  EXPECT_EQ(one(clock, 1601ms), "ok");
  EXPECT_EQ(clock.next(), 1700ms) << "its end";
  const std::vector<NicChange> last = clock.step(1700ms);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].why, "flap every 200 ms is over");
  EXPECT_EQ(clock.next(), kEnd);
}

TEST(FaultClock, AFlapThatEndsPulledIsPutBack) {
  FaultClock clock = clock_of("at=0s server=0 nic=0 kind=flap:200ms for=500ms");
  EXPECT_EQ(one(clock, 0ms), "cable out");
  EXPECT_EQ(one(clock, 200ms), "ok");
  EXPECT_EQ(one(clock, 400ms), "cable out");
  EXPECT_EQ(one(clock, 500ms), "ok");
  EXPECT_EQ(clock.next(), kEnd);
}

TEST(FaultClock, ALateFlapGoesOnWhereItWouldBe) {
  FaultClock clock = clock_of("at=0s server=0 nic=0 kind=flap:100ms");
  EXPECT_EQ(one(clock, 250ms), "cable out");
  EXPECT_EQ(clock.next(), 300ms);
  EXPECT_TRUE(clock.step(450ms).empty()) << "out again meanwhile";
  EXPECT_EQ(one(clock, 500ms), "ok");
}

TEST(FaultClock, OneThatIsOverBeforeAnybodyLooksIsDoneAllTheSame) {
  FaultClock clock = clock_of("at=1s server=0 nic=0 kind=cable for=1ms");
  EXPECT_EQ(one(clock, 5s), "cable out");
  EXPECT_LE(clock.next(), 5s);
  EXPECT_EQ(one(clock, 5s), "ok");
  EXPECT_EQ(clock.next(), kEnd);
}

TEST(FaultClock, FaultsOfOneNicAddUp) {
  FaultClock clock = clock_of(
      "at=1s server=0 nic=0 kind=cable for=5s; at=2s server=0 nic=0 kind=slow:50mbit for=2s;"
      "at=3s server=0 nic=0 kind=slow:80mbit; at=3s server=0 nic=1 kind=down");
  EXPECT_EQ(one(clock, 1s), "cable out");
  EXPECT_EQ(one(clock, 2s), "cable out, slow 50 mbit/s");
  const std::vector<NicChange> both = clock.step(3s);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(to_text(both[0].state, kRate), "cable out, slow 50 mbit/s") << "the lowest rate holds";
  EXPECT_EQ(to_text(both[1].state, kRate), "down") << "the other NIC has its own";
  EXPECT_EQ(one(clock, 4s), "cable out, slow 80 mbit/s");
  EXPECT_EQ(one(clock, 6s), "slow 80 mbit/s");
}

TEST(FaultClock, ItReturnsToWhatTheNicWasLikeBefore) {
  FaultClock clock(parse_faults("at=0s server=0 nic=0 kind=cable for=1s").value(),
                   {.bridged = false, .rate_bytes_s = kRate / 10});
  EXPECT_EQ(one(clock, 0s), "cable out, black hole, slow 50 mbit/s");
  EXPECT_EQ(one(clock, 1s), "black hole, slow 50 mbit/s");
}

TEST(FaultClock, AnOperationIsWaitedFor) {
  FaultClock clock = clock_of("at=op:12 server=0 nic=0 kind=cable for=2s");
  EXPECT_TRUE(clock.waits_for_ranks());
  EXPECT_EQ(clock.next(), kEnd);
  clock.on_reached(11, 1'000'000, 1s);
  EXPECT_TRUE(clock.step(1s).empty());
  clock.on_reached(13, 0, 3s);
  EXPECT_FALSE(clock.waits_for_ranks());
  EXPECT_EQ(one(clock, 3s), "cable out") << "also when the operation itself was missed";
  clock.on_reached(14, 0, 4s);
  EXPECT_TRUE(clock.step(4s).empty()) << "once";
  EXPECT_EQ(one(clock, 5s), "ok") << "for= counts from its beginning";
  EXPECT_EQ(clock.next(), kEnd);
}

TEST(FaultClock, AShareOfTheBytesIsWaitedFor) {
  FaultClock clock = clock_of("at=bytes:40% server=0 nic=0 kind=flap:100ms; at=2s server=0 nic=1 kind=down");
  clock.on_reached(3, 399'999, 500ms);
  EXPECT_TRUE(clock.step(500ms).empty());
  clock.on_reached(3, 400'000, 1s);
  EXPECT_EQ(one(clock, 1s), "cable out");
  EXPECT_EQ(clock.next(), 1100ms);
  EXPECT_EQ(one(clock, 1100ms), "ok");
  EXPECT_FALSE(clock.waits_for_ranks());
}

}  // namespace
}  // namespace r2ccl::lab
