#pragma once
// What algorithms with stages inside a server share: how long the server's fabric is busy, and the order in which its
// GPUs meet each other in all-to-all stages.

#include <algorithm>
#include <cstdint>

#include "planner/algorithm/parts/steps.h"
#include "topology/cluster.h"

namespace r2ccl {

// Seconds that the busiest GPU's fabric port needs for `bytes` of data: reduce-scatter and all-gather inside the
// server, and handing the reduced shards of GPUs without a working NIC to those with one.
inline double intra_time_s(const Cluster& cluster, double bytes) {
  const double g = cluster.gpus;
  double volume = 0;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    double working = 0;
    for (std::uint32_t gpu = 0; gpu < cluster.gpus; ++gpu)
      working += cluster.nic(server, cluster.home_nic(gpu)) > 0 ? 1 : 0;
    working = std::max(working, 1.0);
    volume = std::max(volume, 2 * (g - 1) / g + (g - working) / (g * working));
  }
  return volume * bytes / cluster.intra_rate;
}

// A GPU among the `gpus` of its server. Its peers are visited in rotation, so that at any time everybody sends to
// somebody else: in a loop of gpus - 1 inner iterations it sends to next() and receives from previous().
struct LocalPlace {
  std::uint32_t server = 0;
  std::uint32_t gpu = 0;
  std::uint32_t gpus = 1;

  Index next() const { return rank_of(gpu + 1, 1); }
  Index previous() const { return rank_of(std::int64_t{gpu} - 1, -1); }

 private:
  Index rank_of(std::int64_t base, std::int32_t by_inner) const {
    Index rank = rotate(base, by_inner, gpus);
    rank.offset = static_cast<std::int32_t>(server * gpus);
    return rank;
  }
};

}  // namespace r2ccl
