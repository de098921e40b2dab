#include "sim/cluster/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace r2ccl::sim {
namespace {

constexpr std::size_t kProofsMax = 16;  // a shape of 1,024 ranks is a few megabytes

// What a proof depends on, besides the lanes. all_to_all compares the sizes of pieces, so it keeps them.
Frame shape_of(const Frame& frame) {
  Frame shape = frame;
  shape.shares = {};
  shape.algorithm.clear();
  if (shape.collective != Collective::kAllToAll) {
    for (std::size_t i = 0; i < shape.layout.bounds.size(); ++i) shape.layout.bounds[i] = i;
  }
  return shape;
}

class Stopwatch final {
 public:
  explicit Stopwatch(WallClock clock) : clock_(clock), last_(clock ? clock() : 0) {}
  double lap() {
    const double now = clock_ ? clock_() : 0;
    return now - std::exchange(last_, now);
  }

 private:
  WallClock clock_;
  double last_;
};

}  // namespace

Result<CheckReport> Proofs::check(const Schedule& schedule) {
  Frame frame = shape_of(schedule.frame);
  const auto known = std::find_if(proven_.begin(), proven_.end(), [&](const Proven& p) {
    return p.shape.frame == frame && p.shape.lanes == schedule.lanes;
  });
  if (known != proven_.end()) return known->report;
  const Result<CheckReport> report = r2ccl::check(schedule);
  if (!report) return report;
  if (proven_.size() == kProofsMax) proven_.erase(proven_.begin());
  proven_.push_back({{std::move(frame), schedule.lanes}, *report});
  return report;
}

Result<Evaluation> evaluate(const Schedule& schedule, std::uint64_t bytes, const Cluster& cluster, Proofs& proofs,
                            const EvaluateOptions& options) {
  Evaluation evaluation;
  evaluation.name = schedule.frame.algorithm;
  Stopwatch watch(options.clock);
  const Result<CheckReport> report = proofs.check(schedule);
  if (!report) {
    return fail(Fault::kBug, fmt::format("the checker refuses {}: {}", schedule.frame.algorithm, report.error().what));
  }
  evaluation.checked = *report;
  evaluation.check_wall_s = watch.lap();
  Result<Timing> timing = time_schedule(schedule, cluster, bytes, options.timing);
  if (!timing) return std::unexpected(timing.error());
  evaluation.timing = std::move(*timing);
  evaluation.time_wall_s = watch.lap();
  if (options.scratch) evaluation.scratch_bytes = scratch_bytes(schedule, bytes);
  return evaluation;
}

Result<Evaluation> evaluate(std::string_view algorithm, const Request& request, const Cluster& cluster, Proofs& proofs,
                            const EvaluateOptions& options) {
  Stopwatch watch(options.clock);
  const Result<Plan> planned = plan(algorithm, request, cluster, options.tuning);
  if (!planned) return std::unexpected(planned.error());
  const Schedule schedule = planned->schedule();
  const double plan_wall_s = watch.lap();
  Result<Evaluation> evaluation = evaluate(schedule, request.bytes, cluster, proofs, options);
  if (evaluation) {
    evaluation->plan_wall_s = plan_wall_s;
    evaluation->predicted_s = planned->predicted_s;
  }
  return evaluation;
}

}  // namespace r2ccl::sim
