#include "process/worker_plans.h"

#include <atomic>
#include <exception>
#include <optional>
#include <utility>

#include "comm/agreement/plans.h"

namespace r2ccl {

// Shared by who asked and the worker. `there` is set once, after what it says is there was written.
struct WorkerPlans::Work {
  explicit Work(PlanQuestion asked) : question(std::move(asked)) {}

  void run(const Answer& by) {
    try {
      plan.emplace(by(question));
    } catch (...) {
      thrown = std::current_exception();
    }
    there = true;
  }

  const PlanQuestion question;
  std::atomic<bool> unwanted = false;
  std::atomic<bool> there = false;
  std::optional<Result<RankPlanPtr>> plan{};
  std::exception_ptr thrown{};
};

class WorkerPlans::Asked final : public AskedPlan {
 public:
  explicit Asked(std::shared_ptr<Work> work) : work_(std::move(work)) {}
  ~Asked() override { work_->unwanted = true; }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  const Result<RankPlanPtr>* poll(Instant) override {
    if (!work_->there) return nullptr;
    if (work_->thrown) std::rethrow_exception(work_->thrown);
    return &*work_->plan;
  }

 private:
  const std::shared_ptr<Work> work_;
};

WorkerPlans::WorkerPlans(Worker& worker, std::function<void()> wake) : WorkerPlans(worker, std::move(wake), answer) {}

WorkerPlans::WorkerPlans(Worker& worker, std::function<void()> wake, Answer answer)
    : worker_(worker), wake_(std::move(wake)), answer_(std::move(answer)) {}

std::unique_ptr<AskedPlan> WorkerPlans::ask(PlanQuestion question) {
  auto work = std::make_shared<Work>(std::move(question));
  worker_.run([this, work] {
    if (work->unwanted) return;
    work->run(answer_);
    if (!work->unwanted) wake_();
  });
  return std::make_unique<Asked>(std::move(work));
}

}  // namespace r2ccl
