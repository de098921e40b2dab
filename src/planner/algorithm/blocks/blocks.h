#pragma once
// What the collectives made of blocks have in common: pieces are the ranks' blocks, exactly equal, with the segments
// inside them.

#include <string_view>

#include "planner/algorithm/parts/pair_network.h"
#include "planner/plan.h"

namespace r2ccl {

// What one of them moves.
struct BlockWork {
  PairBytes traffic;         // between servers
  double near_bytes = 0;     // through the busiest GPU's port inside its server, one direction
  double stages = 1;         // hops that a segment passes one after another: far, or near and far
  double messages = 0;       // how many the busiest server handles for one segment
  double on_connection = 1;  // messages of one segment between two ranks, at most
};

// Everything but the lanes: layout, segments by the cost model, shares of rails, slots. Fails where the rails do not
// carry it.
Result<Plan> plan_blocks(const Request& request, const Cluster& cluster, const Tuning& tuning, std::string_view name,
                         const BlockWork& work);

// all_gather and reduce_scatter: every block crosses between every two servers once and is handed to, or collected
// from, all GPUs.
BlockWork block_per_server(const Request& request, const Cluster& cluster);

}  // namespace r2ccl
