// What becomes of a question that a worker answers: late, in vain, or with a bug.

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>

#include "base/assert.h"
#include "comm/agreement/plans.h"
#include "process/worker_plans.h"

namespace r2ccl {
namespace {

Call all_reduce(std::uint64_t floats) {
  Call call;
  call.count = floats;
  return call;
}

PlanQuestion question(std::uint64_t bytes) {
  const Cluster cluster = Cluster::uniform(4, 1, 2, 1e9);
  return {.ground = std::make_shared<const PlanGround>(Mode::kAuto, "", 1U, cluster, cluster),
          .request = {.collective = Collective::kAllReduce, .bytes = bytes},
          .width = 4};
}

TEST(WorkerPlans, AnAnswerIsThatOfWhoPlansAtOnceAndWakesOnce) {
  std::latch woken(1);
  Worker worker;
  WorkerPlans plans(worker, [&] { woken.count_down(); });  // twice would be one too many for a latch
  const auto asked = plans.ask(question(1 << 20));
  woken.wait();
  const auto* there = asked->poll({});
  ASSERT_TRUE(there != nullptr && there->has_value());
  const auto at_once = answer(question(1 << 20));
  EXPECT_EQ((**there)->header.algorithm, (*at_once)->header.algorithm);
  EXPECT_EQ((**there)->lanes, (*at_once)->lanes);
  EXPECT_EQ(asked->poll({}), there) << "it stays";
}

TEST(WorkerPlans, WhoAsksGoesOnMeanwhile) {
  std::latch go(1);
  std::latch woken(1);
  Worker worker;
  WorkerPlans source(
      worker, [&] { woken.count_down(); },
      [&](const PlanQuestion& asked) {
        go.wait();
        return answer(asked);
      });
  Plans plans(Mode::kAuto, "", 0, &source);
  plans.use(Cluster::uniform(4, 1, 2, 1e9), 0);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(plans.plan_for(all_reduce(100)).value(), nullptr);
  go.count_down();
  woken.wait();
  const auto plan = plans.plan_for(all_reduce(100)).value();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plans.plan_for(all_reduce(100)).value(), plan) << "known now";
}

TEST(WorkerPlans, ABugOfThePlannerReachesWhoAsked) {
  std::latch woken(1);
  Worker worker;
  WorkerPlans plans(
      worker, [&] { woken.count_down(); },
      [](const PlanQuestion&) -> Result<RankPlanPtr> { throw Bug("the planner is wrong"); });
  const auto asked = plans.ask(question(8));
  woken.wait();
  EXPECT_THROW((void)asked->poll({}), Bug);
  EXPECT_THROW((void)asked->poll({}), Bug) << "now and later";
}

TEST(WorkerPlans, WhatNobodyWantsIsNotPlanned) {
  std::latch begun(1);
  std::latch go(1);
  std::latch last(1);
  std::atomic<int> planned = 0;
  std::atomic<int> wakes = 0;
  {
    Worker worker;
    WorkerPlans plans(
        worker, [&] { ++wakes; },
        [&](const PlanQuestion& asked) {
          ++planned;
          begun.count_down();
          go.wait();
          return answer(asked);
        });
    auto first = plans.ask(question(8));
    begun.wait();
    plans.ask(question(16)).reset();  // before it has begun
    first.reset();                    // after: nobody waits for it
    worker.run([&] { last.count_down(); });
    go.count_down();
    last.wait();
  }
  EXPECT_EQ(planned, 1);
  EXPECT_EQ(wakes, 0) << "there is nobody to wake";
}

// The process ends while questions are open: in whatever order their askers and the worker go.
TEST(WorkerPlans, EndsWithQuestionsOpen) {
  for (const std::uint64_t bytes : {8, 1 << 20}) {
    std::unique_ptr<AskedPlan> outlives;
    Worker worker;
    WorkerPlans plans(worker, [] {});
    for (int i = 0; i < 20; ++i) outlives = plans.ask(question(bytes));
  }
}

}  // namespace
}  // namespace r2ccl
