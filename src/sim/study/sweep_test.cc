// auto against what no schedule can beat, over random failures. The full thousand of each family: `r2ccl sim sweep`.

#include "sim/study/sweep.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/sanitized.h"
#include "planner/bounds.h"

namespace r2ccl::sim {
namespace {

std::vector<Sample> swept(Family family, std::uint64_t samples, unsigned threads = 1) {
  const auto draw = [family](std::uint64_t seed) { return draw_case(family, seed); };
  Result<std::vector<Sample>> result =
      sweep(draw, "auto", {.samples = samples, .seed = 1, .threads = threads, .with_balance = true, .progress = {}});
  EXPECT_TRUE(result) << result.error().what;
  return result ? std::move(*result) : std::vector<Sample>{};
}

void expect_within(Family family, std::uint32_t wanted, double mean, double worst) {
  const std::uint64_t samples = cases(wanted);
  const std::vector<Sample> all = swept(family, samples);
  ASSERT_EQ(all.size(), samples);
  const Summary summary = summarise(all);
  EXPECT_LE(summary.mean, mean);
  EXPECT_LE(summary.max, worst) << "seed " << summary.worst_seed;
  EXPECT_EQ(summary.slower_than_balance, 0u);
  for (const Sample& sample : all) EXPECT_GE(sample.ratio(), 1 - 1e-9) << "seed " << sample.drawn.seed;
}

TEST(Sweep, RoutedFabricWithinTwoPercentOfTheBoundAndFiveAtWorst) {
  expect_within(Family::kRouted, 150, 1.02, 1.05);
}
TEST(Sweep, FewServersOnRailsWithinThreePercentAndEightAtWorst) {
  expect_within(Family::kRailsSmall, 200, 1.03, 1.08);
}
TEST(Sweep, ManyServersOnRailsWithinThreePercentAndEightAtWorst) {
  expect_within(Family::kRailsLarge, 100, 1.03, 1.08);
}

TEST(Sweep, EightGpusAServerWithinThreePercentAtOneGiBAndFiveBelow) {
  constexpr std::uint32_t kCases = cases(20);
  constexpr std::uint32_t kServers =
      kSanitized ? 8 : 20;  // more take seconds each; `r2ccl sim sweep --family gpus` has them
  Proofs proofs;
  std::uint32_t tried = 0;
  for (std::uint64_t seed = 1; tried < kCases; ++seed) {
    const Case drawn = draw_case(Family::kGpus, seed);
    if (drawn.cluster.servers > kServers) continue;
    ++tried;
    const Result<Evaluation> evaluation = evaluate("auto", drawn.request, drawn.cluster, proofs);
    ASSERT_TRUE(evaluation) << evaluation.error().what;
    const Bounds bounds = bounds_of(Collective::kAllReduce, drawn.request.bytes, drawn.cluster);
    const bool large = drawn.request.bytes >= std::uint64_t{1} << 30;
    EXPECT_LE(evaluation->timing.time_s / std::max(bounds.network_s, bounds.intra_s), large ? 1.03 : 1.05)
        << fmt::format("seed {}: {} servers, {}", seed, drawn.cluster.servers, evaluation->name);
  }
}

// What was worst once, each for its own reason: classes of different sizes (39, 134, 179), a pipeline too short for a
// server that lost two NICs (225), uneven classes at 1 GiB (231), a GPU without NIC whose fabric port decides (38).
// Timed, not proven: `r2ccl sim sweep` does both.
TEST(Sweep, WhatWasWorstOnceHolds) {
  for (const std::uint64_t seed : {38, 39, 134, 179, 225, 231}) {
    const Case drawn = draw_case(Family::kGpus, seed);
    if (kSanitized && drawn.cluster.servers > 8) continue;
    const Result<Plan> planned = plan("auto", drawn.request, drawn.cluster);
    ASSERT_TRUE(planned) << planned.error().what;
    const Result<Timing> timing = time_schedule(planned->schedule(), drawn.cluster, drawn.request.bytes);
    ASSERT_TRUE(timing) << timing.error().what;
    const bool large = drawn.request.bytes >= std::uint64_t{1} << 30;
    const Bounds bounds = bounds_of(Collective::kAllReduce, drawn.request.bytes, drawn.cluster);
    EXPECT_LE(timing->time_s / bounds.bound_s, large ? 1.03 : 1.05) << fmt::format("seed {}", seed);
  }
}

TEST(Sweep, ThreadsDoNotChangeTheResult) {
  const std::vector<Sample> one = swept(Family::kRailsSmall, 12, 1);
  const std::vector<Sample> three = swept(Family::kRailsSmall, 12, 3);
  ASSERT_EQ(one.size(), three.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].time_s, three[i].time_s);
    EXPECT_EQ(one[i].name, three[i].name);
  }
}

TEST(Sweep, SomeOfTheFewServersShareNoRail) {
  std::size_t found = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Cluster cluster = draw_case(Family::kRailsSmall, seed).cluster;
    for (std::uint32_t u = 0; u < cluster.servers; ++u) {
      for (std::uint32_t v = u + 1; v < cluster.servers; ++v) {
        bool shared = false;
        for (std::uint32_t k = 0; k < cluster.nics; ++k) shared |= cluster.nic(u, k) > 0 && cluster.nic(v, k) > 0;
        found += !shared;
      }
    }
  }
  EXPECT_GT(found, 20u);
}

TEST(Sweep, TheSmallMessagesGoToALatencyAlgorithm) {
  Cluster cluster = Cluster::uniform(16, 1, 8, 50e9);
  ASSERT_TRUE(lose_nic(cluster, 2, 3));
  const std::string small = plan("auto", {.bytes = 4096}, cluster)->header.algorithm;
  EXPECT_TRUE(small == "direct" || small == "recursive_doubling" || small == "tree") << small;
}

}  // namespace
}  // namespace r2ccl::sim
