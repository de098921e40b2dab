#pragma once
// Runs many seeds, for `r2ccl fuzz-net` and for tests. Seeds are independent, so threads change nothing but the time it
// takes.

#include <functional>
#include <string>
#include <vector>

#include "sim/net/scenario.h"

namespace r2ccl::sim {

struct FailedSeed {
  std::uint64_t seed = 0;
  std::vector<std::string> violations;
  std::string replay;  // the command that runs it again
};

struct FuzzSummary {
  std::uint64_t seeds = 0;
  std::uint64_t faults = 0;
  std::uint64_t repairs = 0;
  std::uint64_t collectives = 0;
  std::uint64_t replayed_bytes = 0, hedged_bytes = 0, resent_bytes = 0;
  std::uint64_t events = 0;
  std::uint64_t digest = 0;  // of all runs, in order of seeds
  Duration simulated{};
  std::uint64_t failed_seeds = 0;
  std::vector<FailedSeed> failed;  // by seed, at most kFailedMax
};
inline constexpr std::size_t kFailedMax = 100;

// `progress` (may be empty) is called from the calling thread with the number of seeds done.
FuzzSummary fuzz(std::uint64_t first_seed, std::uint64_t count, unsigned threads, const Rules& rules = {},
                 const std::function<void(std::uint64_t)>& progress = {});

// The first seed from `first_seed` on that fails under the rules, trying `count`; nothing when none does.
std::optional<FailedSeed> first_failure(std::uint64_t first_seed, std::uint64_t count, const Rules& rules);

}  // namespace r2ccl::sim
