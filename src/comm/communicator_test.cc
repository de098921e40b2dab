// Goal: a communicator goes through its states as its header says, and every call that was submitted ends, right or
// with a sentence.
// Method: ranks are processes in memory, in one thread; the test moves the clock. Broken networks are in sim/.

#include "comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "testing/engine_net.h"

namespace r2ccl {
namespace {

const CpuDevice kDevice;

class CommunicatorTest : public testing::Test {
 protected:
  void open(std::uint32_t ranks) {
    net_ = std::make_unique<test::EngineNet>(ranks);
    id_ = net_->make_id();
    comms_.resize(ranks);
  }
  void join(std::uint32_t rank) { join(rank, static_cast<std::uint32_t>(comms_.size())); }
  void join(std::uint32_t rank, std::uint32_t size) {
    comms_[rank] = std::make_unique<Communicator>(net_->engine(rank), net_->node(rank).env, kDevice, id_, rank, size,
                                                  CommConfig{});
  }
  void ready(std::uint32_t ranks) {
    open(ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) join(rank);
    ASSERT_TRUE(net_->run([&] { return all_in(CommState::kReady); }));
  }
  bool all_in(CommState state) const {
    return std::ranges::all_of(comms_, [&](const auto& comm) { return !comm || comm->state() == state; });
  }
  Communicator& comm(std::uint32_t rank) { return *comms_[rank]; }

  static Call sum_of(std::vector<std::int32_t>& data) {
    return {.input = data.data(), .output = data.data(), .count = data.size(), .type = DataType::kInt32};
  }
  static std::string error_of(const TicketPtr& ticket) {
    if (!ticket->done) return "not done";
    return ticket->result ? "no error" : ticket->result.error().what;
  }

  std::unique_ptr<test::EngineNet> net_;
  UniqueId id_;
  std::vector<std::unique_ptr<Communicator>> comms_;  // go before their engines
};

TEST_F(CommunicatorTest, IsReadyOnceEveryRankHasJoinedAndTakesNoCallBefore) {
  open(3);
  join(0);
  join(2);
  net_->pass(100ms);
  EXPECT_EQ(comm(0).state(), CommState::kJoining);
  EXPECT_EQ(comm(2).state(), CommState::kJoining);
  std::vector<std::int32_t> data(1);
  const auto early = comm(0).submit({sum_of(data)});
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().fault, Fault::kMisuse);
  EXPECT_EQ(comm(0).health_map(), nullptr);
  join(1);
  EXPECT_TRUE(net_->run([&] { return all_in(CommState::kReady); }));
  EXPECT_NE(comm(0).health_map(), nullptr);
}

TEST_F(CommunicatorTest, CollectivesRunInTheOrderOfSubmissionAndComeOutRight) {
  ready(3);
  std::vector<std::vector<std::int32_t>> first(3, std::vector<std::int32_t>(1000, 1));
  std::vector<std::vector<std::int32_t>> second(3, std::vector<std::int32_t>(10, 5));
  std::vector<TicketPtr> tickets;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    tickets.push_back(comm(rank).submit({sum_of(first[rank])}).value());
    tickets.push_back(comm(rank).submit({sum_of(second[rank])}).value());
  }
  EXPECT_FALSE(tickets[0]->done);
  for (std::uint64_t number = 0; !tickets[5]->done && number < 10'000; ++number) {
    net_->turn();
    for (std::size_t i = 0; i < 6; i += 2) ASSERT_LE(tickets[i + 1]->done, tickets[i]->done);
  }
  ASSERT_TRUE(net_->run(
      [&] { return std::ranges::all_of(tickets, &CallTicket::done, [](auto& t) -> CallTicket& { return *t; }); }));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(error_of(tickets[2 * rank]), "no error");
    EXPECT_EQ(first[rank], std::vector<std::int32_t>(1000, 3));
    EXPECT_EQ(second[rank], std::vector<std::int32_t>(10, 15));
    EXPECT_EQ(comm(rank).plan_in_use().operation, 2u);
  }
}

TEST_F(CommunicatorTest, SendsAndReceivesOfOneSubmitRunSideBySide) {
  ready(2);
  std::vector<std::vector<std::int32_t>> out(2, std::vector<std::int32_t>(100'000)), in = out;
  std::vector<TicketPtr> tickets;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    out[rank].assign(out[rank].size(), static_cast<std::int32_t>(rank + 1));
    const Call receive{.kind = CallKind::kRecv,
                       .output = in[rank].data(),
                       .count = in[rank].size(),
                       .type = DataType::kInt32,
                       .peer = 1 - rank};
    const Call send{.kind = CallKind::kSend,
                    .input = out[rank].data(),
                    .count = out[rank].size(),
                    .type = DataType::kInt32,
                    .peer = 1 - rank};
    tickets.push_back(comm(rank).submit({send, receive}).value());  // alone, either would wait for the other rank's
  }
  ASSERT_TRUE(net_->run([&] { return tickets[0]->done && tickets[1]->done; }));
  EXPECT_EQ(in[0], out[1]);
  EXPECT_EQ(in[1], out[0]);
}

TEST_F(CommunicatorTest, SaysWhomItWaitsFor) {
  ready(2);
  std::vector<std::int32_t> data(100'000);
  const auto ticket = comm(0).submit({sum_of(data)}).value();
  net_->pass(10ms);
  EXPECT_FALSE(ticket->done);
  EXPECT_EQ(comm(0).waiting_for(), std::vector<std::uint32_t>{1});
  EXPECT_TRUE(comm(1).waiting_for().empty());
}

TEST_F(CommunicatorTest, FinishesWhenAllCallsAreDoneAtEveryRank) {
  ready(2);
  std::vector<std::vector<std::int32_t>> data(2, std::vector<std::int32_t>(1000, 2));
  const auto first = comm(0).submit({sum_of(data[0])}).value();
  comm(0).finish();
  net_->pass(100ms);
  EXPECT_EQ(comm(0).state(), CommState::kFinishing);
  const auto late = comm(0).submit({sum_of(data[0])});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().fault, Fault::kMisuse);
  const auto second = comm(1).submit({sum_of(data[1])}).value();
  ASSERT_TRUE(net_->run([&] { return first->done && second->done; })) << "what was submitted is still run";
  net_->pass(100ms);
  EXPECT_EQ(comm(0).state(), CommState::kFinishing) << "rank 1 may have more to do";
  comm(1).finish();
  EXPECT_TRUE(net_->run([&] { return all_in(CommState::kFinished); }));
  EXPECT_EQ(data[0], std::vector<std::int32_t>(1000, 4));
  comm(0).abort("too late");
  EXPECT_EQ(comm(0).state(), CommState::kFinished);
}

TEST_F(CommunicatorTest, WhoFinishesFirstWaitsForTheOthersWhoeverItIs) {
  for (const std::uint32_t first : {0u, 1u, 2u}) {
    ready(3);
    comm(first).finish();
    net_->pass(200ms);
    EXPECT_EQ(comm(first).state(), CommState::kFinishing) << "rank " << first;
    for (std::uint32_t rank = 0; rank < 3; ++rank) comm(rank).finish();
    EXPECT_TRUE(net_->run([&] { return all_in(CommState::kFinished); }, 1s)) << "rank " << first;
    comms_.clear();
  }
}

TEST_F(CommunicatorTest, FinishedAtOnceWhatWasSubmittedIsStillDone) {
  ready(2);
  std::vector<std::vector<std::int32_t>> data(2, std::vector<std::int32_t>(100'000, 2));
  std::vector<TicketPtr> tickets;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    tickets.push_back(comm(rank).submit({sum_of(data[rank])}).value());
    comm(rank).finish();
  }
  ASSERT_TRUE(net_->run([&] { return all_in(CommState::kFinished); }));
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(error_of(tickets[rank]), "no error");
    EXPECT_EQ(data[rank], std::vector<std::int32_t>(100'000, 4));
  }
}

TEST_F(CommunicatorTest, AnAbortEndsEveryPendingCallAtEveryRankWithItsReason) {
  ready(3);
  std::vector<std::int32_t> data(100'000), other(100'000);
  const auto pending = comm(0).submit({sum_of(data)}).value();
  const auto behind = comm(0).submit({sum_of(other)}).value();
  net_->pass(5ms);
  comm(2).abort("Enough.");
  EXPECT_EQ(comm(2).state(), CommState::kFailed);
  ASSERT_TRUE(net_->run([&] { return all_in(CommState::kFailed); }, 100ms));
  for (const TicketPtr& ticket : {pending, behind}) EXPECT_EQ(error_of(ticket), "Enough.");
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(comm(rank).error().what, "Enough.");
    EXPECT_EQ(comm(rank).error().fault, Fault::kAborted);
    const auto later = comm(rank).submit({sum_of(data)});
    ASSERT_FALSE(later);
    EXPECT_EQ(later.error().what, "Enough.");
  }
  comm(0).abort("Another reason.");
  EXPECT_EQ(comm(0).error().what, "Enough.") << "once failed it stays so";
}

TEST_F(CommunicatorTest, DestroyedItTellsItsTicketsAndTheOthers) {
  ready(2);
  std::vector<std::vector<std::int32_t>> data(2, std::vector<std::int32_t>(100'000));
  const auto here = comm(0).submit({sum_of(data[0])}).value();
  net_->pass(5ms);
  comms_[0].reset();
  EXPECT_EQ(error_of(here), "The communicator was destroyed.");
  ASSERT_TRUE(net_->run([&] { return all_in(CommState::kFailed); }, 2s));
  EXPECT_EQ(comm(1).error().what, "The communicator was destroyed.");
}

TEST_F(CommunicatorTest, CallsThatDifferFailAtBothRanksAndAreNamed) {
  for (const std::size_t count : {1001u, 100'000u}) {
    ready(2);
    std::vector<std::int32_t> one(1000), other(count);
    const auto here = comm(0).submit({sum_of(one)}).value();
    const auto there = comm(1).submit({sum_of(other)}).value();
    ASSERT_TRUE(net_->run([&] { return here->done && there->done; }, 3s)) << count;
    for (const TicketPtr& ticket : {here, there}) {
      ASSERT_FALSE(ticket->result) << count;
      EXPECT_EQ(ticket->result.error().fault, Fault::kCallsDiffer);
      EXPECT_THAT(error_of(ticket), testing::HasSubstr("AllReduce of 1000 int32, sum"));
      EXPECT_THAT(error_of(ticket), testing::HasSubstr("AllReduce of " + std::to_string(count) + " int32, sum"));
    }
    comms_.clear();
  }
}

// Each is the root of its own, so neither sends anything that could show it.
TEST_F(CommunicatorTest, CallsThatDifferAreFoundByAskingWhereNothingIsSent) {
  ready(2);
  std::vector<std::vector<std::int32_t>> data(2, std::vector<std::int32_t>(1000));
  std::vector<TicketPtr> tickets;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    Call call = sum_of(data[rank]);
    call.kind = CallKind::kReduce;
    call.peer = rank;
    tickets.push_back(comm(rank).submit({call}).value());
  }
  ASSERT_TRUE(net_->run([&] { return tickets[0]->done && tickets[1]->done; }, 3s));
  for (const TicketPtr& ticket : tickets) {
    ASSERT_FALSE(ticket->result);
    EXPECT_EQ(ticket->result.error().fault, Fault::kCallsDiffer);
    EXPECT_THAT(error_of(ticket), testing::StartsWith("Collective 1 differs: rank "));
  }
}

TEST_F(CommunicatorTest, ADeadRankFailsTheOthersByName) {
  ready(3);
  std::vector<std::vector<std::int32_t>> data(3, std::vector<std::int32_t>(100'000));
  std::vector<TicketPtr> tickets;
  for (const std::uint32_t rank : {0u, 2u}) tickets.push_back(comm(rank).submit({sum_of(data[rank])}).value());
  net_->pass(5ms);
  net_->kill(1);
  ASSERT_TRUE(net_->run([&] { return tickets[0]->done && tickets[1]->done; }));
  for (const TicketPtr& ticket : tickets) {
    ASSERT_FALSE(ticket->result);
    EXPECT_EQ(ticket->result.error().fault, Fault::kPeerDown);
    EXPECT_THAT(error_of(ticket), testing::HasSubstr("rank 1 (host1)"));
  }
}

TEST_F(CommunicatorTest, WhoIsRefusedByTheRootGivesUpWithItsSentence) {
  open(3);
  join(0, 2);
  join(1, 2);
  ASSERT_TRUE(net_->run([&] { return comms_[0]->state() == CommState::kReady; }));
  join(2, 3);
  EXPECT_TRUE(net_->run([&] { return comm(2).state() == CommState::kFailed; }, 6s));
  EXPECT_EQ(comm(2).error().fault, Fault::kMisuse);
  EXPECT_THAT(comm(2).error().what, testing::HasSubstr("expects 3 processes, this job has 2"));
  EXPECT_EQ(comm(0).state(), CommState::kReady) << "the others do not notice";
}

TEST_F(CommunicatorTest, AloneItNeedsNobody) {
  ready(1);
  std::vector<std::int32_t> data(1000, 7);
  const auto ticket = comm(0).submit({sum_of(data)}).value();
  ASSERT_TRUE(net_->run([&] { return ticket->done; }, 100ms));
  EXPECT_EQ(data, std::vector<std::int32_t>(1000, 7));
  EXPECT_EQ(comm(0).plan_in_use().algorithm, "local");
  comm(0).finish();
  EXPECT_TRUE(net_->run([&] { return all_in(CommState::kFinished); }, 100ms));
}

// Failed everywhere, the ranks that stay can still hear where to go on.
TEST_F(CommunicatorTest, InvitesAlsoAfterItHasFailed) {
  ready(3);
  comm(1).abort("Enough.");
  ASSERT_TRUE(net_->run([&] { return all_in(CommState::kFailed); }, 1s));
  const UniqueId next = net_->make_id();
  auto first = comm(0).invite({0, 2}, next);
  auto other = comm(2).invite({0, 2}, std::nullopt);
  ASSERT_TRUE(first && other);
  ASSERT_TRUE(net_->run([&] { return (*other)->over(); }, 1s));
  ASSERT_TRUE((*other)->id());
  EXPECT_EQ((*other)->id()->secret, next.secret);
}

}  // namespace
}  // namespace r2ccl
