// Communicators give all their descriptors and threads back, whatever they went through.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <latch>
#include <thread>

#include "base/sanitized.h"
#include "tests/loopback/support/ranks.h"

namespace r2ccl::loopback {
namespace {

struct Held {
  std::size_t descriptors = 0;
  std::size_t threads = 0;
  friend void PrintTo(const Held& held, std::ostream* out) {
    *out << held.descriptors << " descriptors, " << held.threads << " threads";
  }
};

std::size_t entries(const char* folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

Held held() {
  return {entries("/proc/self/fd"), entries("/proc/self/task")};
}

// With the first thread of a program the thread sanitizer starts one of its own, which stays.
Held held_at_first() {
  if (kSanitized) std::thread([] {}).join();
  return held();
}

// The kernel lists a thread for a moment after it was joined, and connections end only when the other end has heard. So
// this looks again for some seconds, until there are no more than `wanted`.
Held settle(const Held& wanted) {
  Held now = held();
  const auto deadline = std::chrono::steady_clock::now() + 5s;
  while ((now.descriptors > wanted.descriptors || now.threads > wanted.threads) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
    now = held();
  }
  return now;
}

testing::AssertionResult no_more(const Held& now, const Held& before) {
  if (now.descriptors <= before.descriptors && now.threads <= before.threads) return testing::AssertionSuccess();
  return testing::AssertionFailure() << testing::PrintToString(now) << ", before " << testing::PrintToString(before);
}

void sum_ones(Comm& comm, std::size_t count) {
  std::vector<std::int32_t> data(count, 1);
  const Status done = comm.run({.input = data.data(), .output = data.data(), .count = count, .type = DataType::kInt32});
  ASSERT_TRUE(done) << done.error().what;
  for (const std::int32_t value : data) ASSERT_EQ(value, static_cast<std::int32_t>(comm.size()));
}

enum class End : std::uint8_t { kFinalized, kDestroyed, kAborted, kAbortedWithWorkPending };

void come_to(End end, Comm& comm) {
  switch (end) {
    case End::kFinalized: {
      const Status ended = comm.finalize();
      EXPECT_TRUE(ended) << ended.error().what;
      return;
    }
    case End::kDestroyed:
      return;
    case End::kAborted:
      return comm.abort("The test is over.");
    case End::kAbortedWithWorkPending: {
      // The last rank does not call it. What it reads and writes goes right after the abort.
      std::vector<float> data(1'000'000);
      if (comm.rank() + 1 < comm.size())
        comm.submit({{.input = data.data(), .output = data.data(), .count = data.size()}});
      return comm.abort("The test is over.");
    }
  }
}

constexpr End kEnds[] = {End::kFinalized, End::kDestroyed, End::kAborted, End::kAbortedWithWorkPending};

RanksPlan plan_with(std::vector<std::string> faults) {
  RanksPlan plan;
  plan.ranks = 3;
  plan.settings = {"NCCL_DEBUG=VERSION"};  // errors are expected here
  plan.faults = std::move(faults);
  return plan;
}

TEST(Resources, AreBackWhenTheWorldIsGone) {
  const Held before = held_at_first();
  for (const End end : kEnds) {
    for (const auto& faults : {std::vector<std::string>{}, {"at=0ms server=1 nic=1 kind=flap:20ms"}}) {
      std::latch used(3);
      run_ranks(
          plan_with(faults),
          [&](Comm& comm, World&) {
            for (int i = 0; i < 5; ++i) sum_ones(comm, 50'000);
            used.arrive_and_wait();
            come_to(end, comm);
          },
          false);
      EXPECT_TRUE(no_more(settle(before), before)) << "end " << int(end) << (faults.empty() ? "" : ", under a fault");
    }
  }
}

// A World with one communicator that stays; others come and go.
TEST(Resources, DoNotGrowWithTheNumberOfCommunicators) {
  constexpr int kRounds = 24;
  std::vector<std::promise<UniqueId>> made(kRounds);
  std::vector<std::shared_future<UniqueId>> ids;
  for (auto& promise : made) ids.emplace_back(promise.get_future());
  Held early;
  Held late;
  const Held before = held_at_first();
  run_ranks(plan_with({}), [&](Comm& first, World& world) {
    for (int round = 0; round < kRounds; ++round) {
      if (first.rank() == 0) made[round].set_value(world.make_id().value());
      auto comm = world.join(ids[round].get(), first.rank(), 3, {}).value();
      ASSERT_TRUE(comm->wait_joined());
      sum_ones(*comm, 20'000);
      sum_ones(first, 1);  // nobody ends it before everybody has used it
      come_to(kEnds[round % std::size(kEnds)], *comm);
      comm.reset();
      sum_ones(first, 1);
      if (first.rank() != 0) continue;
      if (round < static_cast<int>(std::size(kEnds))) {
        const Held now = held();
        early = {std::max(early.descriptors, now.descriptors), std::max(early.threads, now.threads)};
      } else {
        late = settle(early);
      }
    }
  });
  EXPECT_LE(late.descriptors, early.descriptors) << "each kind of end was seen once: more of them cost nothing";
  EXPECT_LE(late.threads, early.threads);
  EXPECT_TRUE(no_more(settle(before), before));
}

}  // namespace
}  // namespace r2ccl::loopback
