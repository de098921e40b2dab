// A rank is stopped for as long as people stop ranks in a debugger. That takes half a minute each, so only on request:
//
//   LONG_TESTS=1 build/bin/loopback_long_stop_test
//
// RankDeath has the short stops.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/loopback/support/rank_processes.h"

namespace r2ccl::loopback {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Duration kStop = 30s;

#define R2CCL_ONLY_ON_REQUEST()                         \
  if (std::getenv("LONG_TESTS") == nullptr)             \
  GTEST_SKIP() << "It stops a rank for half a minute; " \
                  "ask for it: LONG_TESTS=1 ctest -R long_stop"

// Sums until rank 0 says that it is enough; the same collective is the last one everywhere.
Status sum_for(Comm& comm, Duration most) {
  const auto begin = Clock::now();
  for (;;) {
    std::vector<std::int64_t> data(50'000, comm.rank() + 1);
    data[0] = comm.rank() == 0 && Clock::now() > begin + most ? 1 : 0;
    const Status done =
        comm.run({.input = data.data(), .output = data.data(), .count = data.size(), .type = DataType::kInt64});
    if (!done) return done;
    const std::int64_t sum = comm.size() * (comm.size() + 1) / 2;
    for (std::size_t i = 1; i < data.size(); ++i) {
      if (data[i] != sum) return fail(Fault::kBug, "a wrong element");
    }
    if (data[0] != 0) return comm.finalize();
  }
}

RankProcesses::Body body_for(Duration most) {
  return [most](Comm& comm, World&, const RankProcesses::Tell& tell) {
    tell("running");
    const Status done = sum_for(comm, most);
    tell(done ? "went on" : done.error().what);
  };
}

TEST(LongStop, StoppedForHalfAMinuteIsWaitedForAndTheLogSaysForWhom) {
  R2CCL_ONLY_ON_REQUEST();
  const LogFiles log;
  RanksPlan plan;
  plan.ranks = 3;
  plan.settings = {log.setting()};
  RankProcesses ranks(plan, body_for(kStop + 2s));
  for (std::uint32_t rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.next_line(rank), "running");
  ranks.kill(1, SIGSTOP);
  std::this_thread::sleep_for(kStop);  // what is tested: a rank that does nothing for so long
  EXPECT_NE(log.text().find("waits for rank 1"), std::string::npos) << log.text();
  ranks.kill(1, SIGCONT);
  for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ranks.next_line(rank), "went on") << log.text();
}

TEST(LongStop, StoppedForLongerThanThePeerTimeoutIsTheNamedError) {
  R2CCL_ONLY_ON_REQUEST();
  RanksPlan plan;
  plan.ranks = 3;
  plan.settings = {"R2CCL_PEER_TIMEOUT=5s", "NCCL_DEBUG=VERSION"};
  RankProcesses ranks(plan, body_for(kStop));
  for (std::uint32_t rank = 0; rank < 3; ++rank) ASSERT_EQ(ranks.next_line(rank), "running");
  const auto begin = Clock::now();
  ranks.kill(1, SIGSTOP);
  for (const std::uint32_t rank : {0u, 2u}) {
    const std::string error = ranks.next_line(rank, 25s);
    EXPECT_NE(error.find("rank 1"), std::string::npos) << "rank " << rank << ": " << error;
  }
  EXPECT_GT(Clock::now() - begin, 4s);
  EXPECT_LT(Clock::now() - begin, 15s);
  // Awake again, it does not go on as if nothing had been.
  std::this_thread::sleep_until(begin + kStop);
  ranks.kill(1, SIGCONT);
  const std::string error = ranks.next_line(1);
  EXPECT_NE(error, "went on");
  EXPECT_NE(error, "") << "no answer";
  fmt::print("the one that was stopped: {}\n", error);
}

}  // namespace
}  // namespace r2ccl::loopback
