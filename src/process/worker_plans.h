#pragma once
// Plans made by the worker of a process, for the communicators of one engine.
//
// Ownership  The worker outlives whoever asks; `wake` stays callable until the worker is gone.
// Threads    ask() and what it returns belong to whoever steps the engine; the worker calls `wake`. A question that was
//            let go is skipped if the worker has not begun it; else its answer is thrown away, and nobody waits for it.
// Failure    What the planner throws is thrown by poll(): in the engine's step, whose driver keeps it.

#include <functional>
#include <memory>

#include "comm/agreement/plan_source.h"
#include "runtime/threads/worker.h"

namespace r2ccl {

class WorkerPlans final : public PlanSource {
 public:
  using Answer = std::function<Result<RankPlanPtr>(const PlanQuestion&)>;

  WorkerPlans(Worker& worker, std::function<void()> wake);
  WorkerPlans(Worker& worker, std::function<void()> wake, Answer answer);  // by other means than plans.h's: for tests
  std::unique_ptr<AskedPlan> ask(PlanQuestion question) override;

 private:
  struct Work;
  class Asked;
  Worker& worker_;
  const std::function<void()> wake_;
  const Answer answer_;
};

}  // namespace r2ccl
