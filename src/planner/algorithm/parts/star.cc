#include "planner/algorithm/parts/star.h"

#include "planner/algorithm/blocks/blocks.h"
#include "planner/algorithm/parts/intra.h"
#include "planner/algorithm/parts/pair_network.h"
#include "planner/algorithm/parts/steps.h"

namespace r2ccl {
namespace {

const Index kSegment = outer_plus(0);

// The root gives or takes every block but its own.
BlockWork work_of(const Request& request, const Cluster& cluster, bool outward) {
  const double block = static_cast<double>(request.bytes) / cluster.ranks();
  const std::uint32_t root = request.root / cluster.gpus;
  BlockWork work{.traffic = PairBytes(cluster.servers),
                 .near_bytes = block * (cluster.gpus - 1),
                 .stages = 1,
                 .messages = 1.0 * cluster.gpus * (cluster.servers - 1),
                 .on_connection = 1};
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    if (server != root)
      (outward ? work.traffic.at(root, server) : work.traffic.at(server, root)) = cluster.gpus * block;
  }
  return work;
}

// The root meets the servers in turn, so that a slow one does not hold up the others and none waits for another one's
// whole block.
std::vector<Lane> lanes_of(std::uint32_t me, std::uint32_t root, const Cluster& cluster, std::uint32_t segments,
                           bool outward) {
  const std::uint32_t g = cluster.gpus;
  const auto [server, gpu] = place_of(root, g);
  const bool gives = (me == root) == outward;
  const auto exchange = [gives](const Index& peer, const Index& block) {
    return gives ? send(peer, {block, kSegment}, Buffer::kInput) : recv(peer, {block, kSegment}, Buffer::kOutput);
  };
  if (me != root) {
    Lane lane{.name = gives ? "out" : "in", .outer = segments, .steps = {}};
    lane.steps = {exchange(fixed(root), fixed(me))};
    return {std::move(lane)};
  }
  Lane own{.name = "own", .outer = segments, .steps = {}};
  own.steps = {copy({fixed(me), kSegment}, Buffer::kInput, Buffer::kOutput)};
  Lane far{.name = "far", .outer = segments, .inner = cluster.servers - 1, .steps = {}};
  for (std::uint32_t peer_gpu = 0; peer_gpu < g; ++peer_gpu) {
    const Index peer = on_gpu(rotate(server + 1, 1, cluster.servers), g, peer_gpu);
    far.steps.push_back(exchange(peer, peer));
  }
  Lane near{.name = "near", .outer = segments, .inner = g - 1, .steps = {}};
  const Index neighbour = LocalPlace{server, gpu, g}.next();
  near.steps = {exchange(neighbour, neighbour)};
  return {std::move(own), std::move(far), std::move(near)};
}

}  // namespace

Result<Plan> plan_star(const Request& request, const Cluster& cluster, const Tuning& tuning, std::string_view name,
                       bool outward) {
  Result<Plan> plan = plan_blocks(request, cluster, tuning, name, work_of(request, cluster, outward));
  if (!plan) return plan;
  plan->lanes = [cluster, root = request.root, segments = plan->header.layout.segments, outward](std::uint32_t rank) {
    return lanes_of(rank, root, cluster, segments, outward);
  };
  return plan;
}

}  // namespace r2ccl
