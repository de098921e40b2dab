#pragma once
// The lab the demo runs in: made before the ranks, broken at the faults' times, and removed when this process ends,
// however that comes: a second process, the keeper, waits for it.
//
// Failure  One sentence; what was made by then is removed.

#include <sys/types.h>

#include <memory>
#include <vector>

#include "apps/r2ccl/demo/demo_plan.h"
#include "base/fd.h"
#include "lab/built_lab.h"
#include "lab/fault_clock.h"
#include "lab/state_file.h"

namespace r2ccl::apps {

class DemoLab final {
 public:
  // Before any thread exists: it forks. kMisuse without root.
  static Result<std::unique_ptr<DemoLab>> make(const DemoPlan& plan);
  ~DemoLab();
  DemoLab(const DemoLab&) = delete;
  DemoLab& operator=(const DemoLab&) = delete;

  // A fault of the plan that begins or ends.
  struct Change {
    std::size_t fault = 0;
    bool begins = false;
    Instant at{};  // when the kernel was asked
  };
  // Makes what is due, counted from `start`.
  Result<std::vector<Change>> step(Instant start, Instant now);
  Instant next(Instant start) const;  // kNever: nothing is left to do

  // Removes the lab and waits for that. False when something is left.
  bool finish();

 private:
  explicit DemoLab(const DemoPlan& plan) : plan_(plan), begun_(plan.faults.size()), over_(plan.faults.size()) {}
  Status start_keeper(lab::StateFile& file);

  const DemoPlan plan_;
  Fd alive_;  // the keeper sees its end
  pid_t keeper_ = 0;
  std::unique_ptr<lab::BuiltLab> cluster_;
  std::unique_ptr<lab::FaultClock> clock_;
  std::vector<bool> begun_, over_;  // as plan_.faults
};

}  // namespace r2ccl::apps
