// Between two collectives a NIC dies while nobody calls the library. The ranks agree meanwhile, on their progress
// threads: the next collective begins at once and on the new plan.
//
//   LONG_TESTS=1 build/bin/loopback_compute_gap_timing_test        with a gap of ten seconds

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <latch>
#include <mutex>
#include <thread>

#include "tests/loopback/support/ranks.h"

namespace r2ccl::loopback {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::uint32_t kRanks = 3;
constexpr int kBefore = 30;
constexpr std::size_t kCount = 4000;  // so few that rates are not measured: only the fault is news
constexpr Duration kFaultAt = 1s;     // after the start, which takes some of it, as do the first collectives

Duration gap() {
  return std::getenv("LONG_TESTS") != nullptr ? Duration(10s) : Duration(1s);
}

Duration timed_reduce(Comm& comm) {
  std::vector<std::int32_t> data(kCount, 1);
  const auto begin = Clock::now();
  const Status done =
      comm.run({.input = data.data(), .output = data.data(), .count = kCount, .type = DataType::kInt32});
  const Duration took = Clock::now() - begin;
  EXPECT_TRUE(done) << done.error().what;
  EXPECT_EQ(std::ranges::count(data, std::int32_t{kRanks}), static_cast<std::ptrdiff_t>(kCount));
  return took;
}

bool fault_came(Comm& comm) {
  bool came = false;
  comm.inspect([&](const Engine&, Telemetry& telemetry) {
    for (const Event& event : telemetry.events()) came |= event.kind == EventKind::kFaultInjected;
  });
  return came;
}

struct Seen {
  bool fault_before = false;  // the gap
  bool fault_inside = false;
  Duration usual{};  // the slowest but a few, after the first ones
  Duration next{};
  PlanInUse before, after;
};

Seen live_through_the_gap(Comm& comm, std::latch& awake, Clock::time_point wake) {
  Seen seen;
  std::vector<Duration> took;
  for (int i = 0; i < kBefore; ++i) took.push_back(timed_reduce(comm));
  took.erase(took.begin(), took.begin() + 5);
  std::ranges::sort(took);
  seen.usual = took[took.size() * 9 / 10];
  seen.before = comm.plan_in_use();
  seen.fault_before = fault_came(comm);
  std::this_thread::sleep_until(wake);  // what is tested: nobody calls
  awake.arrive_and_wait();
  seen.next = timed_reduce(comm);
  seen.after = comm.plan_in_use();
  seen.fault_inside = fault_came(comm) && !seen.fault_before;
  return seen;
}

void go_through(const char* kind) {
  RanksPlan plan;
  plan.ranks = kRanks;
  plan.nics = 3;
  plan.settings = {"NCCL_DEBUG=VERSION"};
  plan.faults = {fmt::format("at={}ms server=1 nic=2 kind={}", kFaultAt / 1ms, kind)};
  std::vector<Seen> seen(kRanks);
  std::latch awake(kRanks);
  const auto wake = Clock::now() + kFaultAt + gap();
  run_ranks(plan, [&](Comm& comm, World&) { seen[comm.rank()] = live_through_the_gap(comm, awake, wake); });
  ASSERT_FALSE(seen[1].fault_before) << "the machine is too busy: the first collectives took until the fault";
  ASSERT_TRUE(seen[1].fault_inside);
  for (const Seen& one : seen) {
    EXPECT_EQ(one.before.health_version, 0u);
    EXPECT_EQ(one.after.operation, one.before.operation + 1);
    EXPECT_EQ(one.after.health_version, 1u) << "agreed on before anybody called";
    EXPECT_LT(one.next, 10 * one.usual + 20ms);
  }
  fmt::print("{}: usually {:.2f} ms, the first after the gap {:.2f} ms ({} after {})\n", kind, to_ms(seen[0].usual),
             to_ms(seen[0].next), seen[0].after.algorithm, seen[0].before.algorithm);
}

TEST(ComputeGap, ANicThatGoesDownMeanwhileIsPlannedForAtOnce) {
  go_through("down");
}

// Nothing announces the fault, and nothing is under way that could be missed: only heartbeats find out.
TEST(ComputeGap, ANicThatGoesSilentMeanwhileIsPlannedForAtOnce) {
  go_through("blackhole");
}

}  // namespace
}  // namespace r2ccl::loopback
