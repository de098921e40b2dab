#pragma once
// Random failures, planned by auto, proven, timed, and compared with what no schedule can beat. Deterministic by seed.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/study/evaluate.h"

namespace r2ccl::sim {

struct SlowNic {
  std::uint32_t server = 0;
  std::uint32_t nic = 0;
  double fraction = 0;
};
struct Damage {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> lost;  // (server, NIC)
  std::vector<SlowNic> slow;
};

struct Case {
  std::uint64_t seed = 0;
  Request request;
  Cluster cluster;
  Damage damage;  // already in the cluster's rates
};

// `failures` different NICs; every server keeps one. Slowed NICs keep 10 to 90 % in steps of 10.
Damage draw_damage(Cluster& cluster, std::uint32_t failures, bool some_slow, std::uint64_t seed);

struct Sample {
  Case drawn;
  std::string name;  // the algorithm
  double time_s = 0;
  double bound_s = 0;
  double network_s = 0;  // T*
  double intra_s = 0;    // planner/bounds.h; with several GPUs per server
  double balance_s = 0;  // Balance on the same case; 0 if not asked for
  std::uint64_t smallest_message = 0;
  double ratio() const { return time_s / bound_s; }
};

struct Summary {
  std::size_t samples = 0;
  double mean = 0;  // of ratio()
  double p50 = 0;
  double p99 = 0;
  double max = 0;
  std::uint64_t worst_seed = 0;
  std::size_t slower_than_balance = 0;
};
Summary summarise(const std::vector<Sample>& samples);

struct SweepOptions {
  std::uint64_t samples = 1000;
  std::uint64_t seed = 1;
  unsigned threads = 1;
  bool with_balance = false;
  std::function<void(std::uint64_t done)> progress;  // called from the calling thread
};

// Draws case number i with seed (seed + i). The result is in the order of the cases whatever the number of threads.
Result<std::vector<Sample>> sweep(const std::function<Case(std::uint64_t seed)>& draw, std::string_view algorithm,
                                  const SweepOptions& options);

// The kinds of clusters for which aims are stated (docs/results/schedules.md).
enum class Family : std::uint8_t {
  kRouted,      // 4 <= q <= 128, one rank per server, 4 or 8 NICs, 1 .. q/3 of them lost or slowed
  kRailsSmall,  // isolated rails, 3 <= q <= 8, light and heavy damage, also servers without a common rail
  kRailsLarge,  // isolated rails, 4 <= q <= 128
  kGpus,        // routed, 8 GPUs a server, up to 4 NICs lost
};
std::string_view to_text(Family family);
Case draw_case(Family family, std::uint64_t seed);

}  // namespace r2ccl::sim
