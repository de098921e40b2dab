#pragma once
// What a slower collective costs a training step, or a request to a model that is served. The times of collectives come
// from schedules that the checker accepted and the cluster model timed; compute times are given.

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "sim/study/evaluate.h"
#include "topology/cluster.h"

namespace r2ccl::sim {

// Seconds that so many bytes take.
using ByteTime = std::function<Result<double>(std::uint64_t bytes)>;

// The three kinds of traffic of a job, each over its own group of ranks. Those a job does not use may be empty.
struct Traffic {
  ByteTime data_parallel;    // all_reduce of gradients
  ByteTime tensor_parallel;  // all_reduce of activations
  ByteTime hand_over;        // from one server to another: pipeline stages, key-value caches
};

// Plans, proves and times the collective on the cluster for each size, and remembers those it has seen. `proofs` must
// outlive the function.
ByteTime timed(Collective collective, std::string algorithm, Cluster cluster, Proofs& proofs);
// The time of a broadcast from one of the two servers of `pair` to the other: all that their NICs allow.
ByteTime timed_hand_over(Cluster pair, Proofs& proofs);

// One training step. Forward, then backward; gradients become ready bucket by bucket, evenly over the backward pass,
// and are reduced in order while it goes on. Tensor-parallel collectives stand between layers and can not be hidden;
// pipeline stages hand activations on, hidden except for what fills and drains the pipeline.
struct TrainingJob {
  double forward_s = 0;
  double backward_s = 0;
  std::uint64_t gradient_bytes = 0;  // of one rank, reduced over the data-parallel ranks
  std::uint32_t buckets = 1;
  bool overlapped = true;                // false: all buckets are ready at the end of the backward pass
  std::uint32_t tensor_collectives = 0;  // all_reduces of activations in a step
  std::uint64_t tensor_bytes = 0;        // of each
  std::uint32_t pipeline_stages = 1;
  std::uint32_t micro_batches = 1;
  std::uint64_t stage_bytes = 0;  // activations handed from stage to stage, per micro batch
};

struct StepTime {
  double compute_s = 0;  // with the pipeline's bubble
  double exposed_s = 0;  // communication that compute does not hide
  double total_s() const { return compute_s + exposed_s; }
  double exposed_share() const { return exposed_s / total_s(); }
};
Result<StepTime> training_step(const TrainingJob& job, const Traffic& traffic);

// Serving a model whose layers span servers: prefill computes the prompt and hands the key-value cache to the decoder;
// each token then passes all layers.
struct ServingJob {
  double prefill_s = 0;             // compute of a prompt
  double decode_s = 0;              // compute of a token
  std::uint32_t collectives = 0;    // all_reduces per pass through the layers
  std::uint64_t prefill_bytes = 0;  // of each, for a prompt
  std::uint64_t decode_bytes = 0;   // of each, for a batch of tokens
  std::uint64_t cache_bytes = 0;    // key-value cache of a prompt, from prefill to decode servers
};

struct ServingTime {
  double first_token_s = 0;  // TTFT
  double per_token_s = 0;    // TPOT
};
Result<ServingTime> serve(const ServingJob& job, const Traffic& traffic);

}  // namespace r2ccl::sim
