// A real Engine over a provider that does nothing but count, a waiter made of a condition variable, real threads.
// Nothing is timed but the progress thread's return, which is bounded generously.

#include "runtime/threads/driver.h"

#include <latch>
#include <map>

#include <gtest/gtest.h>

#include "env/real/real.h"
#include "testing/control_net.h"

namespace r2ccl {
namespace {

constexpr Duration kLong = 30s;  // longer than any test may take

class CountingProvider final : public Provider {
 public:
  std::span<const Nic> nics() const override { return {}; }
  Result<Address> listen(NicId, std::uint16_t) override { return fail(Fault::kMisuse, "none"); }
  Result<std::unique_ptr<Link>> connect(NicId, const Address&, const Hello&, Instant) override {
    return fail(Fault::kMisuse, "none");
  }
  std::unique_ptr<Link> accept() override { return nullptr; }
  std::optional<NicEvent> next_event() override { return std::nullopt; }
  Turn step(Instant now) override {
    ++steps;
    ++steps_by[std::this_thread::get_id()];
    if (breaks) throw Bug("broken by the test");
    for (SteadyClock clock; slow && clock.now() < now + 3ms;) {
    }
    // Plain fields on purpose: the thread sanitizer sees two drivers at once.
    return {moves, always_soon ? now + 1us : kNever};
  }
  std::uint64_t steps = 0;
  std::map<std::thread::id, std::uint64_t> steps_by;
  bool breaks = false;
  bool always_soon = false;
  bool moves = false;
  bool slow = false;
};

class TestWaiter final : public Waiter {
 public:
  bool poll() override {
    const std::lock_guard guard(mutex_);
    return woken_;
  }
  void wait(Instant now, Instant until) override {
    std::unique_lock guard(mutex_);
    const int number = ++waits_;
    entered_.notify_all();
    ready_.wait_for(guard, until - now, [&] { return woken_ || only_ == number; });
    if (std::exchange(only_, 0) != number) woken_ = false;
  }
  // Ends the sleep that began as the `number`-th and no other.
  void wake_only(int number) {
    const std::lock_guard guard(mutex_);
    only_ = number;
    ready_.notify_all();
  }
  void wake() override {
    const std::lock_guard guard(mutex_);
    woken_ = true;
    ready_.notify_all();
  }
  // Returns once somebody has gone to sleep `count` times.
  void await_waits(int count) {
    std::unique_lock guard(mutex_);
    entered_.wait(guard, [&] { return waits_ >= count; });
  }
  int waits() {
    const std::lock_guard guard(mutex_);
    return waits_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_, entered_;
  bool woken_ = false;
  int only_ = 0;
  int waits_ = 0;
};

struct Bench {
  explicit Bench(DriverConfig config = {.spin = 0us, .sleep_max = 60s})
      : engine({clock, random, log}, provider, keyring, telemetry, {1}, {}), driver(engine, clock, waiter, config) {}
  Instant far() { return clock.now() + kLong; }
  std::uint64_t steps_of(std::thread::id thread) {
    std::uint64_t count = 0;
    driver.with_engine([&](Engine&) { count = provider.steps_by[thread]; });
    return count;
  }
  // Starts the progress thread, which is parked when this returns or soon after: a caller polls.
  void park_progress() {
    driver.start();
    waiter.await_waits(1);
    driver.poll();
  }
  // Waits until threads other than this one have stepped so often.
  bool others_step(std::uint64_t times) {
    const auto others = [&] {
      std::uint64_t count = 0;
      driver.with_engine([&](Engine&) { count = provider.steps - provider.steps_by[std::this_thread::get_id()]; });
      return count;
    };
    const std::uint64_t before = others();
    for (const Instant end = far(); clock.now() < end; std::this_thread::yield())
      if (others() >= before + times) return true;
    return false;
  }

  SteadyClock clock;
  test::CountingRandom random;
  test::NullLog log;
  CountingProvider provider;
  Keyring keyring;
  Telemetry telemetry;
  TestWaiter waiter;
  Engine engine;
  Driver driver;
};

TEST(Driver, CallerDrivesItselfWithoutAProgressThread) {
  Bench bench;
  const bool done =
      bench.driver.wait_until([&](Engine&) { return bench.provider.steps >= 3; }, bench.clock.now() + 1ms);
  EXPECT_FALSE(done) << "nothing happens, so it sleeps until its deadline";
  bench.provider.always_soon = true;
  EXPECT_TRUE(bench.driver.wait_until([&](Engine&) { return bench.provider.steps >= 50; }, bench.far()));
  EXPECT_EQ(bench.provider.steps_by.size(), 1u);
}

// It keeps the progress thread away all the same, so the engine has a step in a while.
TEST(Driver, ConditionsThatHoldCostAStepAMillisecond) {
  Bench bench;
  const Instant begin = bench.clock.now();
  const Instant end = bench.far();
  Instant now = begin;
  for (; bench.provider.steps < 3; now = bench.clock.now()) {
    ASSERT_LT(now, end);
    EXPECT_TRUE(bench.driver.wait_until([](Engine&) { return true; }, now));
  }
  EXPECT_GE(now - begin, 2ms);
}

// Small calls can tell what a look at the clock costs.
TEST(Driver, ConditionsNeedNotLookAtTheClock) {
  Bench bench;
  bench.provider.always_soon = true;
  const Instant begin = bench.clock.now();
  Instant before = begin;
  int looks = 0;
  EXPECT_TRUE(bench.driver.wait_until(
      [&](Engine&) {
        EXPECT_GE(bench.driver.looked_at(), before);
        before = bench.driver.looked_at();
        return ++looks == 5;
      },
      bench.far()));
  EXPECT_GT(before, begin);
  EXPECT_LE(before, bench.clock.now());
}

TEST(Driver, DeadlineInThePastStillLooksOnce) {
  Bench bench;
  EXPECT_TRUE(bench.driver.wait_until([&](Engine&) { return bench.provider.steps == 1; }, bench.clock.now() - 1s));
  EXPECT_FALSE(bench.driver.wait_until([](Engine&) { return false; }, bench.clock.now() - 1s));
}

TEST(Driver, PostingSendsButDoesNotLookForWhatArrived) {
  Bench bench;
  bench.driver.with_engine([](Engine&) {});
  EXPECT_EQ(bench.provider.steps, 0u);
}

TEST(Driver, SleepingProgressThreadHoldsNobodyUpAndIsWoken) {
  Bench bench;
  bench.driver.start();
  bench.waiter.await_waits(1);
  std::uint64_t before = 0;
  bench.driver.with_engine([&](Engine&) { before = bench.provider.steps; });
  bench.waiter.await_waits(2);
  bench.driver.with_engine([&](Engine&) { EXPECT_GT(bench.provider.steps, before); });
}

TEST(Driver, WakeUpThatTheProgressThreadTakesReachesTheCallerToo) {
  Bench bench;
  bench.driver.start();
  bench.waiter.await_waits(1);
  std::atomic<bool> news = false;
  std::thread caller([&] { EXPECT_TRUE(bench.driver.wait_until([&](Engine&) { return news.load(); }, bench.far())); });
  bench.waiter.await_waits(2);  // both sleep, the progress thread since before
  news = true;
  const Instant begin = bench.clock.now();
  bench.waiter.wake_only(1);
  caller.join();
  EXPECT_LT(bench.clock.now() - begin, kLong) << "it slept to its deadline";
}

TEST(Driver, StopEndsASleepingAndAParkedProgressThread) {
  Bench bench;
  bench.driver.start();
  bench.waiter.await_waits(1);
  bench.driver.stop();
  bench.driver.start();
  bench.driver.wait_until([](Engine&) { return false; }, bench.clock.now() + 1ms);
  bench.driver.stop();
}

TEST(Driver, ProgressThreadIsParkedWhileACallerDrivesAndResumes) {
  Bench bench;
  bench.driver.start();
  bench.waiter.await_waits(1);
  const auto me = std::this_thread::get_id();
  std::uint64_t others_before = 0;
  const auto others = [&] { return bench.provider.steps - bench.provider.steps_by[me]; };
  bench.driver.with_engine([&](Engine&) { bench.provider.always_soon = true; });
  const auto drive = [&](std::uint64_t count) {
    const std::uint64_t goal = bench.steps_of(me) + count;
    return bench.driver.wait_until([&](Engine&) { return bench.provider.steps_by[me] >= goal; }, bench.far());
  };
  ASSERT_TRUE(drive(10));
  bench.driver.with_engine([&](Engine&) { others_before = others(); });
  // Callers in a tight loop for longer than `resume`: the progress thread never gets to drive in between.
  for (const Instant end = bench.clock.now() + 50ms; bench.clock.now() < end;) ASSERT_TRUE(drive(5));
  std::uint64_t others_after = 0;
  bench.driver.with_engine([&](Engine&) { others_after = others(); });
  EXPECT_LE(others_after - others_before, 50u)
      << "only a caller that lost its core for 5 ms lets the progress thread in";
  for (const Instant end = bench.far(); bench.clock.now() < end;) {
    bench.driver.with_engine([&](Engine&) { others_after = others(); });
    if (others_after > others_before + 100) break;
    std::this_thread::yield();
  }
  EXPECT_GT(others_after, others_before + 100) << "it resumed";
}

TEST(Driver, CallerWhoseConditionComesTrueLeavesWhileAnotherDrives) {
  Bench bench;
  bool first = false, second = false;  // guarded by the engine
  std::latch second_left(1);
  std::thread driving([&] { EXPECT_TRUE(bench.driver.wait_until([&](Engine&) { return first; }, bench.far())); });
  bench.waiter.await_waits(1);
  std::thread waiting([&] {
    EXPECT_TRUE(bench.driver.wait_until([&](Engine&) { return second; }, bench.far()));
    second_left.count_down();
  });
  bench.waiter.await_waits(2);  // the driver was woken because of the second caller, and sleeps again
  bench.driver.with_engine([&](Engine&) { second = true; });
  second_left.wait();
  bench.driver.with_engine([&](Engine&) { first = true; });
  driving.join();
  waiting.join();
}

TEST(Driver, RightToDriveIsPassedOn) {
  Bench bench;
  bool first = false, second = false;
  std::thread driving([&] { EXPECT_TRUE(bench.driver.wait_until([&](Engine&) { return first; }, bench.far())); });
  bench.waiter.await_waits(1);
  std::thread waiting([&] { EXPECT_TRUE(bench.driver.wait_until([&](Engine&) { return second; }, bench.far())); });
  bench.waiter.await_waits(2);
  bench.driver.with_engine([&](Engine&) { first = true; });
  driving.join();
  bench.waiter.await_waits(3);  // the second one drives and sleeps
  bench.driver.with_engine([&](Engine&) { second = true; });
  waiting.join();
}

TEST(Driver, DeadlineOfAWaitingCallerIsKeptByTheDrivingOne) {
  Bench bench;
  bool first = false;
  std::thread driving([&] { EXPECT_TRUE(bench.driver.wait_until([&](Engine&) { return first; }, bench.far())); });
  bench.waiter.await_waits(1);
  EXPECT_FALSE(bench.driver.wait_until([](Engine&) { return false; }, bench.clock.now() + 5ms));
  bench.driver.with_engine([&](Engine&) { first = true; });
  driving.join();
}

TEST(Driver, BugReachesEveryCallerAndKillsNobody) {
  Bench bench;
  bench.driver.start();
  bench.waiter.await_waits(1);
  bench.driver.with_engine([&](Engine&) { bench.provider.breaks = true; });
  EXPECT_THROW(bench.driver.wait_until([](Engine&) { return false; }, bench.far()), Bug);
  EXPECT_THROW(bench.driver.with_engine([](Engine&) {}), Bug);
  bench.driver.stop();
}

TEST(Driver, ConditionThatThrowsPassesTheRightOn) {
  Bench bench;
  int looks = 0;
  const auto throws = [&](Engine&) -> bool {
    if (++looks == 2) throw std::runtime_error("the caller's own");
    return false;
  };
  EXPECT_THROW(bench.driver.wait_until(throws, bench.far()), std::runtime_error);
  EXPECT_TRUE(bench.driver.wait_until([&](Engine&) { return bench.provider.steps >= 2; }, bench.far()));
}

TEST(Driver, PollingStepsOnlyWhereThereMayBeSomethingToDo) {
  Bench bench;
  EXPECT_TRUE(bench.driver.poll()) << "nobody knows yet";
  EXPECT_FALSE(bench.driver.poll()) << "nothing is due and nothing has come";
  bench.driver.nudge();
  EXPECT_TRUE(bench.driver.poll());
  bench.waiter.wake();
  EXPECT_TRUE(bench.driver.poll());
  bench.driver.with_engine([](Engine&) {});
  EXPECT_EQ(bench.provider.steps, 3u);
}

TEST(Driver, PostingReadsOnlyNowAndThen) {
  Bench bench;
  std::uint64_t posts = 0;
  const Instant start = bench.clock.now();
  while (bench.clock.now() < start + 5ms) posts += bench.driver.post() ? 1 : 0;
  const auto spans = static_cast<std::uint64_t>((bench.clock.now() - start) / 100us);
  EXPECT_GE(posts, bench.provider.steps);
  EXPECT_GE(bench.provider.steps, 1u) << "who only posts hears too";
  EXPECT_LE(bench.provider.steps, spans + 1);
}

TEST(Driver, PollingAndPostingNeverWaitForTheEngine) {
  Bench bench;
  bench.driver.with_engine([&](Engine&) {
    std::thread([&] {
      EXPECT_FALSE(bench.driver.poll());
      EXPECT_FALSE(bench.driver.post());
    }).join();
  });
  EXPECT_EQ(bench.provider.steps, 0u);
}

TEST(Driver, NudgeWakesASleepingProgressThread) {
  Bench bench;
  bench.driver.start();
  bench.waiter.await_waits(1);
  bench.driver.nudge();
  bench.waiter.await_waits(2);
  bench.driver.with_engine([&](Engine&) { EXPECT_GE(bench.provider.steps, 2u); });
}

TEST(Driver, LongTurnsOfPollingCallersBecomeTheProgressThreadsWork) {
  Bench bench({.spin = 0us, .resume = 60s, .sleep_max = 60s, .long_turn = 1ns});
  bench.park_progress();
  bench.driver.with_engine([&](Engine&) { bench.provider.moves = true; });
  for (int turns = 0; turns < 2;) turns += bench.driver.poll() ? 1 : 0;
  EXPECT_TRUE(bench.others_step(10));
  EXPECT_FALSE(bench.driver.poll()) << "its work, until there is none";
  bench.driver.with_engine([&](Engine&) { bench.provider.moves = false; });
  for (const Instant end = bench.far(); !bench.driver.post() && bench.clock.now() < end;) std::this_thread::yield();
  EXPECT_GE(bench.steps_of(std::this_thread::get_id()), 2u) << "callers step again";
}

TEST(Driver, ShortTurnsGoBackToPollingCallers) {
  Bench bench({.spin = 0us, .resume = 60s, .sleep_max = 60s, .long_turn = 2ms});
  bench.park_progress();
  bench.driver.with_engine([&](Engine&) { bench.provider.moves = bench.provider.slow = true; });
  for (int turns = 0; turns < 2;) turns += bench.driver.poll() ? 1 : 0;
  EXPECT_TRUE(bench.others_step(1)) << "handed over";
  bench.driver.with_engine([&](Engine&) { bench.provider.slow = false; });
  bool back = false;
  for (const Instant end = bench.far(); !back && bench.clock.now() < end;) back = bench.driver.poll();
  EXPECT_TRUE(back) << "although there is always something to do";
}

TEST(Driver, ManyThreadsShareTheEngine) {
  Bench bench({.spin = 10us, .resume = 1ms, .sleep_max = 1ms});
  bench.driver.start();
  constexpr int kThreads = 6, kRounds = 200;
  std::vector<int> tokens(kThreads, 0);  // guarded by the engine; thread i waits for its own and gives one to the next
  tokens[0] = 1;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        const auto mine = static_cast<std::size_t>(i);
        ASSERT_TRUE(bench.driver.wait_until([&](Engine&) { return tokens[mine] > 0; }, bench.far()));
        bench.driver.with_engine([&](Engine&) {
          --tokens[mine];
          ++tokens[(mine + 1) % kThreads];
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tokens[0], 1);
}

}  // namespace
}  // namespace r2ccl
