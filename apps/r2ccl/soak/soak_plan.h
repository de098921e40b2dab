#pragma once
// What happens in a soak, drawn from its seed: faults and collectives. Pure: every rank draws the same.

#include <cstdint>
#include <vector>

#include "apps/r2ccl/perf/perf_collective.h"
#include "apps/r2ccl/run/run_plan.h"
#include "env/seeded_random.h"
#include "topology/nic.h"
#include "transport/fault/fault_spec.h"

namespace r2ccl::apps {

struct SoakPlan {
  std::uint64_t servers = 4;
  std::uint64_t ranks = 1;  // of each server
  std::uint64_t nics = 4;
  std::uint64_t seed = 1;
  Duration length = 60s;
  Fabric fabric = Fabric::kRouted;

  std::uint32_t size() const { return static_cast<std::uint32_t>(servers * ranks); }
};

inline constexpr Duration kSoakFaultEvery = 2s;  // on average; less often where that would be more than kFaultsMax
inline constexpr Duration kSoakFaultTime = 6s;   // the longest
inline constexpr Duration kSoakRecovery = 3s;    // a NIC counts as broken for so long after its fault
inline constexpr std::uint64_t kSoakBytesMax = 16 << 20;  // of the largest buffer

// Faults of all kinds within the failure model, sorted by time: every server always has a sound NIC, and on isolated
// rails there is always a rail with sound NICs in all servers. All faults are over a tenth of the length before the
// end.
std::vector<FaultSpec> soak_faults(const SoakPlan& plan);

// The next collective, as this rank takes part in it. Sizes are spread evenly over the powers of two.
PerfCase soak_case(SeededRandom& random, std::uint32_t rank, std::uint32_t ranks);

}  // namespace r2ccl::apps
