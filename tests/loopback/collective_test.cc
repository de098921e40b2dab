// Collectives over real sockets between loopback addresses: healthy, under faults, with ranks that do not agree,
// with ranks that go.

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include "tests/loopback/support/ranks.h"

namespace r2ccl::loopback {
namespace {

RanksPlan plan_of(std::uint32_t ranks, std::uint32_t nics = 2, std::vector<std::string> faults = {}) {
  RanksPlan plan;
  plan.ranks = ranks;
  plan.nics = nics;
  plan.faults = std::move(faults);
  return plan;
}

// Values whose sum over a few ranks is exact in float32.
float value_of(std::uint32_t rank, std::size_t i) {
  return static_cast<float>((rank + 1) * (i % 1000 + 1));
}

void all_reduce(Comm& comm, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = value_of(comm.rank(), i);
  const Status done = comm.run({.input = data.data(), .output = data.data(), .count = count});
  ASSERT_TRUE(done) << done.error().what;
  const auto ranks = comm.size();
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], value_of(ranks * (ranks + 1) / 2 - 1, i)) << i;
}

TEST(Collective, AllReduceOfAllSizes) {
  for (const std::uint32_t ranks : {1u, 2u, 3u, 4u}) {
    run_ranks(plan_of(ranks), [&](Comm& comm, World&) {
      for (const std::size_t count : {0u, 1u, 7u, 1000u, 100'000u, 3'000'000u}) all_reduce(comm, count);
    });
  }
}

std::ptrdiff_t threads_here() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

// Each rank is a process of its own here, with one thread for plans from the first question on.
TEST(Collective, PlansAreMadeByAThreadOfTheirOwn) {
  constexpr std::uint32_t kRanks = 3;
  std::barrier together(kRanks);
  run_ranks(plan_of(kRanks), [&](Comm& comm, World&) {
    together.arrive_and_wait();
    const std::ptrdiff_t before = threads_here();
    together.arrive_and_wait();
    all_reduce(comm, 1000);
    together.arrive_and_wait();
    EXPECT_EQ(threads_here(), before + kRanks);
    together.arrive_and_wait();
    all_reduce(comm, 100'000);
    together.arrive_and_wait();
    EXPECT_EQ(threads_here(), before + kRanks) << "one, however much is asked";
  });
}

TEST(Collective, RanksOfOneServerShareItsNics) {
  RanksPlan plan = plan_of(4);
  plan.per_server = 2;
  run_ranks(plan, [](Comm& comm, World&) { all_reduce(comm, 500'000); });
}

TEST(Collective, EstimatesFollowBytesAndCalls) {
  run_ranks(plan_of(3), [](Comm& comm, World&) {
    static float some[1];  // never touched
    const auto seconds = [&](const std::vector<Call>& calls) { return comm.estimate(calls).value(); };
    const auto sum = [](std::uint64_t count) { return Call{.input = some, .output = some, .count = count}; };
    const auto point = [&](CallKind kind) {
      return Call{.kind = kind, .input = some, .output = some, .count = 1 << 20, .peer = (comm.rank() + 1) % 3};
    };
    EXPECT_EQ(seconds({}), 0);
    EXPECT_GT(seconds({sum(1)}), 0);
    EXPECT_GT(seconds({sum(16 << 20)}), 2 * seconds({sum(4 << 20)}));
    EXPECT_NEAR(seconds({sum(1000), sum(1000)}), 2 * seconds({sum(1000)}), 1e-12) << "one after another";
    const double alone = seconds({point(CallKind::kSend)});
    EXPECT_GT(alone, 0);
    EXPECT_EQ(seconds({point(CallKind::kSend), point(CallKind::kRecv)}), alone) << "both ways at once";
    EXPECT_GT(seconds({point(CallKind::kSend), point(CallKind::kSend)}), 1.5 * alone);
    EXPECT_EQ(comm.plan_in_use().operation, 0u) << "nothing has run";
  });
}

TEST(Collective, CompletesWhenANicDiesInsideAndReplansAfterwards) {
  std::mutex mutex;
  std::set<std::string> maps;  // of the last operations, by rank
  run_ranks(plan_of(3, 3, {"at=300ms server=1 nic=1 kind=down"}), [&](Comm& comm, World&) {
    const auto begin = std::chrono::steady_clock::now();
    std::uint64_t version = 0;
    while (version == 0 && std::chrono::steady_clock::now() < begin + std::chrono::seconds(20)) {
      all_reduce(comm, 400'000);
      version = comm.plan_in_use().health_version;
      // All stop after the same operation: the version is the same on all ranks for one operation.
    }
    EXPECT_EQ(version, 1u);
    const std::lock_guard lock(mutex);
    maps.insert(std::to_string(version) + " " + std::to_string(comm.plan_in_use().operation));
  });
  EXPECT_EQ(maps.size(), 1u) << "the new plan begins with the same operation everywhere";
}

// Faults that wait for a collective act in it and not before.
TEST(Collective, FaultsComeAtAnOperationAndInsideIt) {
  const auto downs = [](Comm& comm) {
    std::uint64_t count = 0;
    comm.inspect([&](const Engine&, Telemetry& telemetry) { count = telemetry.counters.paths_down; });
    return count;
  };
  run_ranks(plan_of(2, 2, {"at=op:3 server=0 nic=1 kind=reset"}), [&](Comm& comm, World&) {
    for (int i = 0; i < 2; ++i) all_reduce(comm, 200'000);
    const std::uint64_t before = downs(comm);
    all_reduce(comm, 200'000);
    if (comm.rank() == 0) {  // the other one may be late: it then looks when the third has begun here
      EXPECT_EQ(before, 0u);
      EXPECT_EQ(downs(comm), 1u);
    }
  });
  run_ranks(plan_of(2, 2, {"at=bytes:60% server=0 nic=1 kind=reset"}), [&](Comm& comm, World&) {
    EXPECT_EQ(downs(comm), 0u);
    all_reduce(comm, 2'000'000);
    if (comm.rank() == 0) {
      EXPECT_EQ(downs(comm), 1u);
    }
  });
}

TEST(Collective, CallsThatDifferAreNamedNotWaitedFor) {
  std::mutex mutex;
  std::vector<std::string> errors;
  const auto note = [&](const Status& status) {
    const std::lock_guard lock(mutex);
    errors.push_back(status ? "no error" : status.error().what);
  };
  run_ranks(
      plan_of(2),
      [&](Comm& comm, World&) {
        std::vector<float> data(1000);
        note(comm.run({.input = data.data(), .output = data.data(), .count = comm.rank() == 0 ? 1000u : 900u}));
      },
      false);
  run_ranks(
      plan_of(2),
      [&](Comm& comm, World&) {  // both wait for the other: no message would ever tell
        std::vector<float> data(1000);
        note(comm.run({.kind = CallKind::kBroadcast,
                       .input = data.data(),
                       .output = data.data(),
                       .count = 1000,
                       .peer = 1 - comm.rank()}));
      },
      false);
  ASSERT_EQ(errors.size(), 4u);
  for (const std::string& error : errors) EXPECT_NE(error.find("differs: rank"), std::string::npos) << error;
  EXPECT_NE(errors[0].find("AllReduce of 1000 float"), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find("AllReduce of 900 float"), std::string::npos) << errors[0];
}

TEST(Collective, AbortEndsEveryRank) {
  std::latch waiting(3);
  run_ranks(
      plan_of(3),
      [&](Comm& comm, World&) {
        all_reduce(comm, 1000);
        if (comm.rank() == 1) {
          waiting.arrive_and_wait();
          comm.abort("The operator said so.");
          return;
        }
        std::vector<float> data(1000);
        auto ticket = comm.submit({{.input = data.data(), .output = data.data(), .count = 1000}});
        ASSERT_TRUE(ticket);
        waiting.arrive_and_wait();
        const Status done = comm.wait(*ticket);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().what, "The operator said so.");
      },
      false);
}

// Ten communicators of the same three ranks, from a thread each.
void run_ten(const RanksPlan& plan) {
  constexpr int kComms = 10;
  std::array<std::promise<UniqueId>, kComms> made;
  std::array<std::shared_future<UniqueId>, kComms> ids;
  for (int i = 0; i < kComms; ++i) ids[i] = made[i].get_future();
  run_ranks(plan, [&](Comm& first, World& world) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kComms; ++i) {
      threads.emplace_back([&, i] {
        const std::uint32_t rank = (first.rank() + i) % 3;
        if (rank == 0) made[i].set_value(world.make_id().value());
        auto comm = world.join(ids[i].get(), rank, 3, {}).value();
        ASSERT_TRUE(comm->wait_joined());
        for (int round = 0; round < 20; ++round) all_reduce(*comm, 1 + 10'000 * (round % 5));
        ASSERT_TRUE(comm->finalize());
      });
    }
    for (int round = 0; round < 20; ++round) all_reduce(first, 20'000);
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(Collective, CommunicatorsShareSessionsAndDoNotDisturbEachOther) {
  run_ten(plan_of(3, 2, {"at=50ms server=2 nic=0 kind=reset"}));
}

TEST(Collective, CommunicatorsOfOneServerDoNotDisturbEachOther) {
  RanksPlan plan = plan_of(3);
  plan.per_server = 3;
  run_ten(plan);
}

}  // namespace
}  // namespace r2ccl::loopback
