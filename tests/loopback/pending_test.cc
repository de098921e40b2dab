// A communicator ends while a collective can not finish, because somebody has not called it: always in bounded
// time, and with a sentence.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <thread>

#include "tests/loopback/support/rank_processes.h"

namespace r2ccl::loopback {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Duration kSoon = 3s;  // an abort takes milliseconds; the machine may be busy

RanksPlan quiet(std::uint32_t ranks) {
  RanksPlan plan;
  plan.ranks = ranks;
  plan.settings = {"NCCL_DEBUG=VERSION"};  // errors are expected here
  return plan;
}

Call reduce_of(std::vector<float>& data) {
  return {.input = data.data(), .output = data.data(), .count = data.size()};
}

// Until another thread's call has got so far. False: not soon.
bool comes_about(const std::function<bool()>& holds) {
  for (const auto end = Clock::now() + kSoon; Clock::now() < end; std::this_thread::yield()) {
    if (holds()) return true;
  }
  return false;
}

std::string error_of(const Status& status) {
  return status ? "no error" : status.error().what;
}

bool names_another(const std::string& error, std::uint32_t self, std::uint32_t ranks) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (rank != self && error.find("rank " + std::to_string(rank)) != std::string::npos) return true;
  }
  return false;
}

TEST(Pending, AbortEndsWhatNobodyElseCalled) {
  std::latch submitted(3);
  std::latch heard(3);  // before anybody's World goes, and with it what was not sent yet
  run_ranks(
      quiet(3),
      [&](Comm& comm, World&) {
        std::vector<float> data(1'000'000);  // more than fits on the way
        std::vector<TicketPtr> tickets;
        for (int i = 0; i < 3 && comm.rank() != 1; ++i) tickets.push_back(comm.submit({reduce_of(data)}).value());
        submitted.arrive_and_wait();
        const auto begin = Clock::now();
        if (comm.rank() == 0) {
          comm.abort("Rank 0 has seen enough.");
          EXPECT_LT(Clock::now() - begin, kSoon);
        }
        for (const TicketPtr& ticket : tickets) EXPECT_EQ(error_of(comm.wait(ticket)), "Rank 0 has seen enough.");
        // Rank 1 may call before it has heard.
        EXPECT_EQ(error_of(comm.run(reduce_of(data))), "Rank 0 has seen enough.");
        EXPECT_EQ(comm.state(), CommState::kFailed);
        EXPECT_LT(Clock::now() - begin, kSoon);
        heard.arrive_and_wait();
      },
      false);
}

TEST(Pending, AbortFreesAThreadThatWaits) {
  std::latch over(2);
  run_ranks(
      quiet(2),
      [&](Comm& comm, World&) {
        if (comm.rank() == 0) {
          std::vector<float> data(1000);
          auto waiting = std::async(std::launch::async, [&] { return comm.run(reduce_of(data)); });
          EXPECT_TRUE(comes_about([&] { return comm.plan_in_use().operation == 1; })) << "the call has not begun";
          // It waits for rank 1, which never calls.
          EXPECT_EQ(waiting.wait_for(0ms), std::future_status::timeout);
          comm.abort("Somebody pressed a key.");
          ASSERT_EQ(waiting.wait_for(kSoon), std::future_status::ready);
          EXPECT_EQ(error_of(waiting.get()), "Somebody pressed a key.");
        }
        over.arrive_and_wait();
      },
      false);
}

// The memory of a pending call may go as soon as the communicator has gone.
TEST(Pending, DestroyedWithWorkPendingTellsTheTicketAndTheOthers) {
  std::promise<UniqueId> made;
  const std::shared_future<UniqueId> id(made.get_future());
  std::latch submitted(2);
  run_ranks(quiet(2), [&](Comm& outer, World& world) {
    if (outer.rank() == 0) made.set_value(world.make_id().value());
    auto comm = world.join(id.get(), outer.rank(), 2, {}).value();
    ASSERT_TRUE(comm->wait_joined());
    auto data = std::make_unique<std::vector<float>>(1'000'000);
    if (outer.rank() == 0) {
      const TicketPtr ticket = comm->submit({reduce_of(*data)}).value();
      submitted.arrive_and_wait();
      const auto begin = Clock::now();
      comm.reset();
      data.reset();
      EXPECT_LT(Clock::now() - begin, kSoon);
      EXPECT_TRUE(ticket->done);
      EXPECT_EQ(error_of(ticket->result), "The communicator was destroyed.");
    } else {
      submitted.arrive_and_wait();
      const auto begin = Clock::now();
      EXPECT_EQ(error_of(comm->run(reduce_of(*data))), "The communicator was destroyed.");
      EXPECT_LT(Clock::now() - begin, kSoon);
    }
    // The sessions are shared, and not harmed.
    std::vector<float> one(1, 1);
    ASSERT_TRUE(outer.run(reduce_of(one)));
    EXPECT_EQ(one[0], 2);
  });
}

TEST(Pending, FinalizeWaitsForARankThatComputesAndEndsWhenItAborts) {
  std::latch finalizing(2);
  std::latch heard(2);
  run_ranks(
      quiet(2),
      [&](Comm& comm, World&) {
        if (comm.rank() == 0) {
          auto waiting = std::async(std::launch::async, [&] { return comm.finalize(); });
          EXPECT_TRUE(comes_about([&] { return comm.state() == CommState::kFinishing; })) << "it does not finalize";
          EXPECT_EQ(waiting.wait_for(0ms), std::future_status::timeout);
          finalizing.arrive_and_wait();
          ASSERT_EQ(waiting.wait_for(kSoon), std::future_status::ready);
          EXPECT_EQ(error_of(waiting.get()), "Rank 1 would rather not.");
        } else {
          finalizing.arrive_and_wait();
          comm.abort("Rank 1 would rather not.");
        }
        heard.arrive_and_wait();
      },
      false);
}

// Whichever rank leaves, the root of the rendezvous or another one, in a collective or between two.
TEST(Pending, TheOnlySurvivorHearsWhoIsGone) {
  constexpr std::uint32_t kRanks = 4;
  for (const std::uint32_t survivor : {0u, 2u}) {
    RankProcesses ranks(quiet(kRanks), [](Comm& comm, World&, const auto& tell) {
      std::vector<float> data(100'000);
      Status done = comm.run(reduce_of(data));
      tell(error_of(done));
      while (done) done = comm.run(reduce_of(data));
      tell(error_of(done));
      tell(error_of(comm.run(reduce_of(data))));
    });
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) ASSERT_EQ(ranks.next_line(rank), "no error");
    const auto begin = Clock::now();
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      if (rank != survivor) ranks.kill(rank, SIGKILL);
    }
    const std::string error = ranks.next_line(survivor);
    EXPECT_LT(Clock::now() - begin, 10s);
    EXPECT_TRUE(names_another(error, survivor, kRanks)) << "rank " << survivor << ": " << error;
    EXPECT_EQ(ranks.next_line(survivor), error) << "it stays so";
  }
}

}  // namespace
}  // namespace r2ccl::loopback
