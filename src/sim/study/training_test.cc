#include "sim/study/training.h"

#include <gtest/gtest.h>

namespace r2ccl::sim {
namespace {

// So many seconds a byte, whatever the collective.
ByteTime flat(double seconds_per_byte) {
  return [=](std::uint64_t bytes) -> Result<double> { return seconds_per_byte * static_cast<double>(bytes); };
}

TEST(TrainingJob, WithoutOverlapAllCommunicationIsExposed) {
  const TrainingJob job{.forward_s = 1, .backward_s = 2, .gradient_bytes = 100, .buckets = 4, .overlapped = false};
  const StepTime step = *training_step(job, {.data_parallel = flat(0.01), .tensor_parallel = {}, .hand_over = {}});
  EXPECT_DOUBLE_EQ(step.compute_s, 3);
  EXPECT_DOUBLE_EQ(step.exposed_s, 1);
  EXPECT_DOUBLE_EQ(step.exposed_share(), 0.25);
}

TEST(TrainingJob, BucketsHideBehindTheBackwardPassExceptTheLast) {
  const TrainingJob job{.forward_s = 1, .backward_s = 2, .gradient_bytes = 100, .buckets = 4};
  const StepTime step = *training_step(job, {.data_parallel = flat(0.01), .tensor_parallel = {}, .hand_over = {}});
  EXPECT_DOUBLE_EQ(step.exposed_s, 0.25);
}

TEST(TrainingJob, ANetworkThatIsTooSlowQueuesBuckets) {
  const TrainingJob job{.forward_s = 1, .backward_s = 2, .gradient_bytes = 100, .buckets = 4};
  const StepTime step = *training_step(job, {.data_parallel = flat(0.04), .tensor_parallel = {}, .hand_over = {}});
  // The first bucket is ready after half a second; then four of a second each.
  EXPECT_DOUBLE_EQ(step.exposed_s, 0.5 + 4 - 2);
}

TEST(TrainingJob, TensorAndPipelineTrafficIsExposed) {
  const TrainingJob job{.forward_s = 1,
                        .backward_s = 2,
                        .tensor_collectives = 3,
                        .tensor_bytes = 10,
                        .pipeline_stages = 4,
                        .micro_batches = 6,
                        .stage_bytes = 5};
  const StepTime step =
      *training_step(job, {.data_parallel = {}, .tensor_parallel = flat(0.01), .hand_over = flat(0.02)});
  EXPECT_DOUBLE_EQ(step.compute_s, 3 * 1.5);
  EXPECT_DOUBLE_EQ(step.exposed_s, 3 * 0.1 + 2 * 3 * 0.1);
}

TEST(ServingJob, FirstTokenPaysForThePromptAndItsCache) {
  const ServingJob job{
      .prefill_s = 1, .decode_s = 0.1, .collectives = 2, .prefill_bytes = 100, .decode_bytes = 1, .cache_bytes = 50};
  const ServingTime time = *serve(job, {.data_parallel = {}, .tensor_parallel = flat(0.01), .hand_over = flat(0.02)});
  EXPECT_DOUBLE_EQ(time.first_token_s, 1 + 2 * 1 + 1);
  EXPECT_DOUBLE_EQ(time.per_token_s, 0.1 + 2 * 0.01);
}

TEST(Jobs, TimesComeFromTheClusterModelAndALostNicShows) {
  Proofs proofs;
  const Cluster healthy = Cluster::uniform(4, 2, 4, 50e9);
  Cluster broken = healthy;
  ASSERT_TRUE(lose_nic(broken, 0, 0));
  ASSERT_TRUE(lose_nic(broken, 0, 1));
  const Cluster pair = Cluster::uniform(2, 1, 4, 50e9);
  Cluster broken_pair = pair;
  ASSERT_TRUE(lose_nic(broken_pair, 0, 0));
  const TrainingJob job{.forward_s = 2e-3,
                        .backward_s = 4e-3,
                        .gradient_bytes = 256 << 20,
                        .buckets = 4,
                        .tensor_collectives = 8,
                        .tensor_bytes = 1 << 20,
                        .pipeline_stages = 2,
                        .micro_batches = 4,
                        .stage_bytes = 64 << 20};
  const auto step = [&](const Cluster& cluster, const Cluster& ends) {
    return training_step(job, {.data_parallel = timed(Collective::kAllReduce, "auto", cluster, proofs),
                               .tensor_parallel = timed(Collective::kAllReduce, "auto", cluster, proofs),
                               .hand_over = timed_hand_over(ends, proofs)});
  };
  const Result<StepTime> before = step(healthy, pair);
  const Result<StepTime> after = step(broken, broken_pair);
  ASSERT_TRUE(before) << before.error().what;
  ASSERT_TRUE(after) << after.error().what;
  EXPECT_GT(after->exposed_s, before->exposed_s);
  EXPECT_EQ(after->compute_s, before->compute_s);
}

}  // namespace
}  // namespace r2ccl::sim
