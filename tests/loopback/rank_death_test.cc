// Ranks as processes: killed, stopped, computing.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>
#include <utility>

#include "tests/loopback/support/rank_processes.h"

namespace r2ccl::loopback {
namespace {

using Clock = std::chrono::steady_clock;

RanksPlan plan_of(std::uint32_t ranks, std::vector<std::string> settings = {}, std::uint32_t per_server = 1) {
  RanksPlan plan;
  plan.ranks = ranks;
  plan.per_server = per_server;
  plan.settings = std::move(settings);
  plan.settings.push_back("NCCL_DEBUG=VERSION");  // errors are expected here
  return plan;
}

Status reduce(Comm& comm, std::size_t count) {
  std::vector<std::int64_t> data(count, comm.rank() + 1);
  const Status done = comm.run({.input = data.data(), .output = data.data(), .count = count, .type = DataType::kInt64});
  if (!done) return done;
  const std::int64_t sum = comm.size() * (comm.size() + 1) / 2;
  for (const std::int64_t value : data) {
    if (value != sum) return fail(Fault::kBug, "a wrong element");
  }
  return done;
}

// Makes collectives until one fails, and sends its error to the test.
void reduce_for_ever(Comm& comm, const RankProcesses::Tell& tell) {
  Status done = reduce(comm, 1000);
  tell(done ? "running" : done.error().what);
  while (done) done = reduce(comm, 100'000);
  tell(done.error().what);
}

TEST(RankDeath, KilledRankIsNamedEverywhereSoon) {
  for (const auto& [victim, per_server] : {std::pair{2u, 1u}, {0u, 1u}, {1u, 3u}, {0u, 3u}}) {
    RankProcesses ranks(plan_of(3, {}, per_server),
                        [](Comm& comm, World&, const auto& tell) { reduce_for_ever(comm, tell); });
    for (std::uint32_t rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.next_line(rank), "running");
    const auto begin = Clock::now();
    ranks.kill(victim, SIGKILL);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      const std::string error = ranks.next_line(rank);
      EXPECT_NE(error.find("rank " + std::to_string(victim)), std::string::npos) << "rank " << rank << ": " << error;
    }
    EXPECT_LT(Clock::now() - begin, 10s);
  }
}

TEST(RankDeath, StoppedRankIsWaitedFor) {
  RankProcesses ranks(plan_of(3), [](Comm& comm, World&, const auto& tell) {
    Status done = reduce(comm, 1000);
    tell(done ? "running" : done.error().what);
    const auto begin = Clock::now();
    while (done && Clock::now() < begin + 4s) done = reduce(comm, 50'000);
    // All leave after the same collective: rank 0's clock decides.
    tell(done ? "went on" : done.error().what);
  });
  for (std::uint32_t rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.next_line(rank), "running");
  ranks.kill(1, SIGSTOP);
  std::this_thread::sleep_for(2s);  // what is tested: a rank that does nothing for so long
  ranks.kill(1, SIGCONT);
  std::uint32_t went_on = 0;
  for (std::uint32_t rank = 0; rank < 3; ++rank) went_on += ranks.next_line(rank) == "went on" ? 1 : 0;
  EXPECT_GE(went_on, 1u) << "the first to leave ends the others' next collective";
}

TEST(RankDeath, StoppedRankIsTheErrorAfterThePeerTimeout) {
  RankProcesses ranks(plan_of(2, {"R2CCL_PEER_TIMEOUT=2s"}),
                      [](Comm& comm, World&, const auto& tell) { reduce_for_ever(comm, tell); });
  for (std::uint32_t rank = 0; rank < 2; ++rank) ASSERT_EQ(ranks.next_line(rank), "running");
  const auto begin = Clock::now();
  ranks.kill(1, SIGSTOP);
  const std::string error = ranks.next_line(0);
  EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
  EXPECT_GT(Clock::now() - begin, 1s);
  EXPECT_LT(Clock::now() - begin, 10s);
}

}  // namespace
}  // namespace r2ccl::loopback
