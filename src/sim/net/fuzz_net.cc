#include "sim/net/fuzz_net.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/assert.h"
#include "sim/side_by_side.h"

namespace r2ccl::sim {

namespace {

FailedSeed failed_seed(std::uint64_t seed, const RunReport& report) {
  return {
      .seed = seed, .violations = report.violations, .replay = fmt::format("r2ccl fuzz-net --seed {} --seeds 1", seed)};
}

void add(FuzzSummary& total, const RunReport& report) {
  ++total.seeds;
  total.faults += report.faults;
  total.repairs += report.repairs;
  total.collectives += report.collectives;
  total.replayed_bytes += report.replayed_bytes;
  total.hedged_bytes += report.hedged_bytes;
  total.resent_bytes += report.resent_bytes;
  total.events += report.events;
  total.simulated += report.simulated;
}

}  // namespace

FuzzSummary fuzz(std::uint64_t first_seed, std::uint64_t count, unsigned threads, const Rules& rules,
                 const std::function<void(std::uint64_t)>& progress) {
  std::mutex mutex;  // of the total
  FuzzSummary total;
  std::vector<std::uint64_t> digests(count);
  const auto judge = [&](std::uint64_t i) -> Status {
    const RunReport report = run_scenario(draw_scenario(first_seed + i, rules));
    const std::lock_guard lock(mutex);
    add(total, report);
    digests[i] = report.digest;
    if (!report.ok) {
      ++total.failed_seeds;
      if (total.failed.size() < kFailedMax) total.failed.push_back(failed_seed(first_seed + i, report));
    }
    return {};
  };
  R2CCL_ASSERT(side_by_side(
                   count, threads, [&] { return NumberedTask(judge); }, progress),
               "a seed is judged, it does not fail");
  std::ranges::sort(total.failed, {}, &FailedSeed::seed);
  Digest digest;
  for (const std::uint64_t one : digests) digest.add(one);
  total.digest = digest.value();
  return total;
}

std::optional<FailedSeed> first_failure(std::uint64_t first_seed, std::uint64_t count, const Rules& rules) {
  for (std::uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    const RunReport report = run_scenario(draw_scenario(seed, rules));
    if (!report.ok) return failed_seed(seed, report);
  }
  return std::nullopt;
}

}  // namespace r2ccl::sim
