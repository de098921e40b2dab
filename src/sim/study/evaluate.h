#pragma once
// Plans a collective, proves the schedule and times it. This is the only way to a printed time, so every printed time
// is of a schedule that the checker accepted.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "planner/plan.h"
#include "schedule/check/check.h"
#include "sim/cluster/timing.h"

namespace r2ccl::sim {

// Remembers what was proven, and its lanes in the form that is timed. The checker's proof does not depend on how
// large pieces are (as long as they are not empty) or which rails carry them, so one proof serves all schedules that
// differ in nothing else; thousands of failure patterns share a few.
class Proofs final {
 public:
  struct Proven {
    std::string key;  // proof_key()
    CheckReport report;
    FlatLanes flat;  // of time_schedule()
  };
  // Valid until the next call.
  Result<Proven*> check(const Schedule& schedule);
  std::size_t proven() const { return proven_.size(); }

 private:
  std::vector<Proven> proven_;  // the latest last; bounded
};

struct Evaluation {
  std::string name;
  CheckReport checked;
  Timing timing;
  double predicted_s = 0;
  std::uint64_t scratch_bytes = 0;  // if wanted
  // How long our own work took, in seconds; measured with `clock`.
  double plan_wall_s = 0;
  double check_wall_s = 0;
  double time_wall_s = 0;
};

// Monotonic seconds; injected, because nothing here reads a clock.
using WallClock = double (*)();

struct EvaluateOptions {
  Tuning tuning;
  TimingOptions timing;
  bool scratch = true;        // work out scratch_bytes: it costs a fifth of the timing of a large cluster
  WallClock clock = nullptr;  // null: wall times stay 0
};

// Fails as plan() and time_schedule() do, and with kBug when the checker refuses the schedule; `proofs` may be shared
// by the calls of one thread.
Result<Evaluation> evaluate(std::string_view algorithm, const Request& request, const Cluster& cluster, Proofs& proofs,
                            const EvaluateOptions& options = {});
// The same for a schedule at hand.
Result<Evaluation> evaluate(const Schedule& schedule, std::uint64_t bytes, const Cluster& cluster, Proofs& proofs,
                            const EvaluateOptions& options = {});

}  // namespace r2ccl::sim
