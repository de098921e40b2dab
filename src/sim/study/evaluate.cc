#include "sim/study/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "sim/study/proof_key.h"

namespace r2ccl::sim {
namespace {

constexpr std::size_t kProofsMax = 16;
constexpr std::size_t kKeysMax = std::size_t{64} << 20;  // bytes
// Lanes with more steps are not kept for the next timing: they would be hundreds of megabytes, and flattening them is
// a small part of their time.
constexpr std::size_t kKeptSteps = std::size_t{1} << 18;

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

Result<Proofs::Proven*> Proofs::check(const Schedule& schedule) {
  std::string key = proof_key(schedule);
  const auto known = std::ranges::find(proven_, key, &Proven::key);
  if (known != proven_.end()) return &*known;
  const Result<CheckReport> report = r2ccl::check(schedule);
  if (!report) return std::unexpected(report.error());
  std::size_t bytes = key.size();
  for (const Proven& proven : proven_) bytes += proven.key.size();
  while (!proven_.empty() && (proven_.size() >= kProofsMax || bytes > kKeysMax)) {
    bytes -= proven_.front().key.size();
    proven_.erase(proven_.begin());
  }
  return &proven_.emplace_back(std::move(key), *report);
}

Result<Evaluation> evaluate(const Schedule& schedule, std::uint64_t bytes, const Cluster& cluster, Proofs& proofs,
                            const EvaluateOptions& options) {
  Evaluation evaluation;
  evaluation.name = schedule.header.algorithm;
  Stopwatch watch(options.clock);
  const Result<Proofs::Proven*> proven = proofs.check(schedule);
  if (!proven) {
    return fail(Fault::kBug, fmt::format("the checker refuses {}: {}", schedule.header.algorithm, proven.error().what));
  }
  evaluation.checked = (*proven)->report;
  evaluation.check_wall_s = watch.lap();
  Result<Timing> timing = time_schedule(schedule, cluster, bytes, options.timing, &(*proven)->flat);
  if ((*proven)->flat.steps.size() > kKeptSteps) (*proven)->flat = {};
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
