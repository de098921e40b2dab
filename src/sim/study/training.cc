#include "sim/study/training.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/assert.h"

namespace r2ccl::sim {
namespace {

// When the last bucket is reduced, counted from the start of the backward pass.
double gradients_done_s(const TrainingJob& job, double bucket_s) {
  double done_s = 0;
  for (std::uint32_t bucket = 1; bucket <= job.buckets; ++bucket) {
    const double ready_s = job.overlapped ? job.backward_s * bucket / job.buckets : job.backward_s;
    done_s = std::max(done_s, ready_s) + bucket_s;
  }
  return done_s;
}

}  // namespace

ByteTime timed(Collective collective, std::string algorithm, Cluster cluster, Proofs& proofs) {
  auto known = std::make_shared<std::map<std::uint64_t, double>>();
  return [collective, algorithm = std::move(algorithm), cluster = std::move(cluster), &proofs,
          known](std::uint64_t bytes) -> Result<double> {
    if (const auto found = known->find(bytes); found != known->end()) return found->second;
    const Result<Evaluation> evaluation =
        evaluate(algorithm, {.collective = collective, .bytes = bytes}, cluster, proofs, {.scratch = false});
    if (!evaluation) return std::unexpected(evaluation.error());
    return known->emplace(bytes, evaluation->timing.time_s).first->second;
  };
}

ByteTime timed_hand_over(Cluster pair, Proofs& proofs) {
  R2CCL_ASSERT(pair.servers == 2, "a hand-over has two ends");
  return timed(Collective::kBroadcast, "auto", std::move(pair), proofs);
}

Result<StepTime> training_step(const TrainingJob& job, const Traffic& traffic) {
  StepTime step;
  // The pipeline is full after stages - 1 micro batches; the same again to drain.
  const double bubble = static_cast<double>(job.pipeline_stages - 1) / job.micro_batches;
  step.compute_s = (job.forward_s + job.backward_s) * (1 + bubble);
  if (job.tensor_collectives > 0) {
    const Result<double> tensor_s = traffic.tensor_parallel(job.tensor_bytes);
    if (!tensor_s) return std::unexpected(tensor_s.error());
    step.exposed_s += job.tensor_collectives * *tensor_s;
  }
  if (job.pipeline_stages > 1) {
    const Result<double> stage_s = traffic.hand_over(job.stage_bytes);
    if (!stage_s) return std::unexpected(stage_s.error());
    step.exposed_s += 2 * (job.pipeline_stages - 1) * *stage_s;
  }
  if (job.gradient_bytes > 0) {
    const Result<double> bucket_s = traffic.data_parallel(job.gradient_bytes / job.buckets);
    if (!bucket_s) return std::unexpected(bucket_s.error());
    step.exposed_s += gradients_done_s(job, *bucket_s) - job.backward_s;
  }
  return step;
}

Result<ServingTime> serve(const ServingJob& job, const Traffic& traffic) {
  const Result<double> prefill_s = traffic.tensor_parallel(job.prefill_bytes);
  const Result<double> decode_s = traffic.tensor_parallel(job.decode_bytes);
  const Result<double> cache_s = traffic.hand_over(job.cache_bytes);
  for (const Result<double>* one : {&prefill_s, &decode_s, &cache_s}) {
    if (!*one) return std::unexpected(one->error());
  }
  return ServingTime{.first_token_s = job.prefill_s + job.collectives * *prefill_s + *cache_s,
                     .per_token_s = job.decode_s + job.collectives * *decode_s};
}

}  // namespace r2ccl::sim
