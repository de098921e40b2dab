#include "bindings/nccl/phased_work.h"

#include <algorithm>
#include <exception>

#include "bindings/nccl/background.h"

namespace r2ccl::bindings {
namespace {

using Jobs = std::vector<std::unique_ptr<Job>>;

Outcome caught(Job& job, Outcome (Job::*half)(int), int phase) {
  try {
    return (job.*half)(phase);
  } catch (const std::exception& bug) {
    return {ncclInternalError, bug.what()};
  }
}

// How each one ended. A job that failed takes no part in later phases; its peers learn of it by time-out or by its
// absence.
std::vector<Outcome> run_phases(const Jobs& jobs) {
  std::vector<Outcome> outcomes(jobs.size());
  int phases = 0;
  for (const auto& job : jobs) phases = std::max(phases, job->phases());
  for (int phase = 0; phase < phases; ++phase) {
    for (const auto half : {&Job::begin, &Job::finish}) {
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (outcomes[i].ok() && phase < jobs[i]->phases()) outcomes[i] = caught(*jobs[i], half, phase);
      }
    }
  }
  return outcomes;
}

void run_in_background(Jobs jobs) {
  for (const auto& job : jobs) {
    for (const auto& member : job->members()) member->begin_pending();
  }
  // std::function copies what it holds.
  auto shared = std::make_shared<Jobs>(std::move(jobs));
  in_background([shared] {
    const auto outcomes = run_phases(*shared);
    for (std::size_t i = 0; i < shared->size(); ++i) {
      bool first = true;
      for (const auto& member : (*shared)[i]->members()) {
        member->end_pending(std::exchange(first, false) ? outcomes[i] : Outcome{});
      }
    }
  });
}

}  // namespace

Outcome run_jobs(Jobs jobs) {
  if (jobs.empty()) return {};
  const auto blocking = std::count_if(jobs.begin(), jobs.end(), [](const auto& job) { return job->blocking(); });
  if (blocking == 0) {
    run_in_background(std::move(jobs));
    return {ncclInProgress, ""};
  }
  if (static_cast<std::size_t>(blocking) != jobs.size()) {
    for (const auto& job : jobs) job->cancel();
    return invalid_argument("a group mixes blocking and non-blocking communicators");
  }
  const auto outcomes = run_phases(jobs);
  Outcome first;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (outcomes[i].ok()) continue;
    jobs[i]->cancel();
    if (first.ok()) first = outcomes[i];
  }
  return first;
}

}  // namespace r2ccl::bindings
