#pragma once
// Plans for isolated rails, where NIC k reaches only NICs k, so what two servers can exchange depends on which NICs
// both still have. There are two planners. Both say who owns what and how each pair of servers divides its traffic over
// the rails; `load` is the time that NICs need for unit data with the shares as rounded, without latency.
//
//   fit_rails   stars with fitted rail shares, any number of servers. Meets the pooled T* closely from q = 12 or so on;
//               with few servers and heavy damage it may be far from the optimum.
//   pack_trees  packs trees of depth <= 2 (deeper only where no such tree exists) under NIC prices, q <= kPackServers.
//               Within 1.5 % of the exact optimum, also where a server must relay for others.
//
// Both are pure, and use only additions, products, quotients and square roots in a fixed order, so every rank gets the
// same bits.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "schedule/schedule.h"
#include "topology/cluster.h"

namespace r2ccl {

struct RailPlan {
  std::vector<double> rho;  // share that server v owns: it is the root of the star of weight rho[v]; sums to 1
  RailShares shares;        // a pair that has no common rail has zeros only; no traffic is planned for it
  double load = 0;          // seconds per byte of data: the largest of load / rate over all NICs
};
// Fails with one sentence where no server shares a rail with every other one: stars can not serve that.
Result<RailPlan> fit_rails(const Cluster& cluster);

struct TreeShape {
  std::uint32_t root = 0;
  std::vector<std::uint32_t> parent;  // [server]; parent[root] == root
  double weight = 0;                  // share of the data that is reduced up and broadcast down this tree
};

inline constexpr std::uint32_t kPackServers = 16;

struct TreePacking {
  std::vector<TreeShape> shapes;  // weights sum to 1; heaviest first
  RailShares shares;              // a pair that no tree uses has shares too, or zeros where it has no common rail
  double load = 0;                // as in RailPlan
  double bound = 0;  // proven: no schedule on these rails has less load; tests find load within 1.5 % of it
};
// Fails with one sentence for more than kPackServers servers, or where the rails do not join all servers.
Result<TreePacking> pack_trees(const Cluster& cluster);

}  // namespace r2ccl
