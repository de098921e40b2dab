#pragma once
// Trees over all ranks, and the steps that add up along them or pass down. One GPU of each server speaks for it, so
// that data crosses between servers once for each edge of the tree of servers.

#include <cstdint>
#include <vector>

#include "planner/algorithm/parts/pair_network.h"
#include "planner/pipeline.h"
#include "planner/plan.h"

namespace r2ccl {

struct Tree {
  std::uint32_t root = 0;
  std::vector<std::uint32_t> parent;                 // [rank]; the root's is itself
  std::vector<std::vector<std::uint32_t>> children;  // [rank]; those in other servers first
  std::uint32_t far_depth = 0;                       // hops between servers on the longest way
  std::uint32_t near_depth = 0;                      // and inside a server
};

// Nodes have up to `degree` children between servers, and inside a server as many again. Complete, counted from the
// root's place.
Tree tree_of(const Cluster& cluster, std::uint32_t root, std::uint32_t degree);
// Where rails do not join every two servers: the tree of fewest hops, with the least servers first.
Result<Tree> tree_along_rails(const Cluster& cluster, std::uint32_t root);

// Lanes over the segments of a layout of one piece. A rank that has nobody to add up for sends its input.
// `sums`: where a rank between leaves and root adds up. In scratch it uses slot 0.
Lane up_lane(const Tree& tree, std::uint32_t me, std::uint32_t segments, Buffer sums, std::uint32_t channel);
// `source`: what the root sends.
Lane down_lane(const Tree& tree, std::uint32_t me, std::uint32_t segments, Buffer source, std::uint32_t channel);

// Segments for passing up, down or both, and the shares of rails.
struct TreePlan {
  Pipeline pipeline;
  RailShares shares;
};
Result<TreePlan> plan_passes(const Tree& tree, std::uint64_t bytes, bool up, bool down, const Cluster& cluster,
                             const Tuning& tuning);

}  // namespace r2ccl
