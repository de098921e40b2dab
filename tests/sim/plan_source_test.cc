// Who plans is not who steps: a step of the engine makes no plan where somebody else does, serves everybody else
// while a plan is awaited, and ends whether it comes or not. Under the simulated clock, so nothing here depends on
// how fast anything is.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ranges>
#include <vector>

#include "base/assert.h"
#include "comm/agreement/plans.h"
#include "tests/sim/crowd.h"

namespace r2ccl::sim {
namespace {

constexpr std::uint32_t kRanks = 4;
constexpr std::uint32_t kNics = 2;
constexpr Duration kLong = 2s;    // beyond every time after which a path is suspected or judged silent
constexpr Duration kTakes = 3ms;  // a plan, where it takes a time

// Answers when told to.
class HeldPlans final : public PlanSource {
 public:
  struct Held {
    PlanQuestion question;
    std::optional<Result<RankPlanPtr>> plan;
  };

  std::unique_ptr<AskedPlan> ask(PlanQuestion question) override {
    held_.push_back(std::make_shared<Held>(std::move(question)));
    return std::make_unique<Asked>(held_.back(), broken_);
  }
  std::size_t asked() const { return held_.size(); }
  // Questions somebody still wants answered.
  std::size_t wanted() const {
    return static_cast<std::size_t>(std::ranges::count_if(held_, [](const auto& one) { return one.use_count() > 1; }));
  }
  void answer_all() {
    for (const auto& one : held_) one->plan = r2ccl::answer(one->question);
  }
  void break_all() { broken_ = true; }

 private:
  class Asked final : public AskedPlan {
   public:
    Asked(std::shared_ptr<Held> held, const bool& broken) : held_(std::move(held)), broken_(broken) {}
    const Result<RankPlanPtr>* poll(Instant) override {
      if (broken_) throw Bug("the planner is wrong");
      return held_->plan ? &*held_->plan : nullptr;
    }

   private:
    const std::shared_ptr<Held> held_;
    const bool& broken_;
  };
  bool broken_ = false;
  std::vector<std::shared_ptr<Held>> held_;
};

class PlanSourceTest : public testing::Test {
 protected:
  PlanSourceTest()
      : crowd(kRanks, kNics, [this](std::uint32_t) {
          CommConfig config;
          config.plans = &held;
          return config;
        }) {}

  void wake_all() {
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) crowd.wake(rank);
  }
  std::size_t begun() {
    std::size_t count = 0;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) count += crowd.communicator(rank).plan_in_use().operation;
    return count;
  }

  HeldPlans held;
  Crowd crowd;
};

TEST_F(PlanSourceTest, AStepMakesNoPlan) {
  ASSERT_TRUE(crowd.join());
  const auto tickets = crowd.all_reduce(1000);
  EXPECT_FALSE(crowd.finish(tickets, kLong)) << "a collective ran on a plan that nobody has made";
  EXPECT_EQ(begun(), 0u);
  EXPECT_EQ(held.asked(), kRanks) << "each rank asks once";
  held.answer_all();
  wake_all();
  EXPECT_TRUE(crowd.finish(tickets));
  EXPECT_EQ(begun(), kRanks);
  EXPECT_TRUE(crowd.sums_are_right());

  const auto again = crowd.all_reduce(1000);
  EXPECT_TRUE(crowd.finish(again)) << "a plan that is known is not asked for";
  EXPECT_EQ(held.asked(), kRanks);
}

TEST_F(PlanSourceTest, WhoWaitsForAPlanDoesNotBurnAProcessor) {
  ASSERT_TRUE(crowd.join());
  const auto tickets = crowd.all_reduce(1000);
  crowd.run_for(100ms);
  const std::uint64_t before = crowd.world().events_handled();
  crowd.run_for(10ms);
  EXPECT_LT(crowd.world().events_handled(), before + 200);
}

TEST_F(PlanSourceTest, OthersAreServedMeanwhile) {
  crowd.add_communicator([](std::uint32_t) { return CommConfig{}; });
  ASSERT_TRUE(crowd.join(0) && crowd.join(1));
  const auto waiting = crowd.all_reduce(1000, 0);
  crowd.run_for(kLong);
  const auto others = crowd.all_reduce(1000, 1);
  EXPECT_TRUE(crowd.finish(others, 100ms));
  EXPECT_FALSE(waiting[0]->done);
  held.answer_all();
  wake_all();
  EXPECT_TRUE(crowd.finish(waiting, 100ms)) << "paths were lost meanwhile";
  EXPECT_TRUE(crowd.sums_are_right());
}

// A NIC is lost while the first collective waits: it keeps the map that it was bound to, at every rank, and the next
// one has the new map.
TEST_F(PlanSourceTest, ACollectiveKeepsItsMapHoweverLateItsPlan) {
  ASSERT_TRUE(crowd.join());
  const auto first = crowd.all_reduce(1000);
  crowd.run_for(10ms);
  crowd.lose_nic(1, 1);
  crowd.run_for(kLong);
  held.answer_all();
  wake_all();
  ASSERT_TRUE(crowd.finish(first));
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(crowd.communicator(rank).plan_in_use().health_version, 0u);

  const auto second = crowd.all_reduce(1000);
  crowd.run_for(10ms);
  EXPECT_EQ(held.asked(), 2 * kRanks) << "the old map's plans were used for the new one";
  held.answer_all();
  wake_all();
  ASSERT_TRUE(crowd.finish(second));
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(crowd.communicator(rank).plan_in_use().health_version, 1u);
  EXPECT_TRUE(crowd.sums_are_right());
}

// A source may tell when to look instead of waking somebody.
TEST(PlanSource, IsLookedAtWhenItSays) {
  class Timed final : public PlanSource {
   public:
    struct Asked final : AskedPlan {
      explicit Asked(const PlanQuestion& question) : plan(answer(question)) {}
      const Result<RankPlanPtr>* poll(Instant now) override {
        if (due == kNever) due = now + kTakes;
        return now < due ? nullptr : &plan;
      }
      Instant next_look() const override { return due; }
      const Result<RankPlanPtr> plan;
      Instant due = kNever;
    };
    std::unique_ptr<AskedPlan> ask(PlanQuestion question) override { return std::make_unique<Asked>(question); }
  };
  Timed timed;
  Crowd crowd(kRanks, kNics, [&](std::uint32_t) {
    CommConfig config;
    config.plans = &timed;
    return config;
  });
  ASSERT_TRUE(crowd.join());
  crowd.run_for(kLong);  // nobody has anything else to do
  const auto tickets = crowd.all_reduce(1000);
  const auto begun = [&](std::uint32_t rank) { return crowd.communicator(rank).plan_in_use().operation == 1; };
  const auto all_ranks = std::views::iota(0U, kRanks);
  crowd.run_for(kTakes - 100us);
  EXPECT_TRUE(std::ranges::none_of(all_ranks, begun));
  crowd.run_for(200us);
  EXPECT_TRUE(std::ranges::all_of(all_ranks, begun));
  EXPECT_TRUE(crowd.finish(tickets));
}

TEST_F(PlanSourceTest, AnAbortLetsTheQuestionGo) {
  ASSERT_TRUE(crowd.join());
  const auto tickets = crowd.all_reduce(1000);
  crowd.run_for(10ms);
  ASSERT_EQ(held.wanted(), kRanks);
  crowd.communicator(2).abort("enough");
  EXPECT_TRUE(tickets[2]->done);
  crowd.wake(2);
  ASSERT_TRUE(crowd.finish(tickets));
  EXPECT_EQ(held.wanted(), 0u);
  held.answer_all();  // to nobody
  wake_all();
  crowd.run_for(10ms);
  EXPECT_EQ(begun(), 0u);
  for (const TicketPtr& ticket : tickets) EXPECT_FALSE(ticket->result.has_value());
}

TEST_F(PlanSourceTest, ABugOfThePlannerComesOutOfTheStep) {
  ASSERT_TRUE(crowd.join());
  const auto tickets = crowd.all_reduce(1000);
  crowd.run_for(10ms);
  held.break_all();
  wake_all();
  EXPECT_THROW(crowd.run_for(10ms), Bug) << "a driver keeps what its engine's step throws";
}

}  // namespace
}  // namespace r2ccl::sim
