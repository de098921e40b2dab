// The root sends every rank its block straight; its NICs are the bound. It serves the servers in turn, so that a slow one does not
// hold up the others.

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/blocks.h"
#include "planner/algorithm/network.h"
#include "planner/algorithm/steps.h"

namespace r2ccl {
namespace {

const Index kSegment = outer_plus(0);

std::vector<Lane> lanes_of(std::uint32_t me, std::uint32_t root, const Cluster& cluster, std::uint32_t segments) {
  const std::uint32_t g = cluster.gpus;
  const auto [server, gpu] = place_of(root, g);
  if (me != root) {
    Lane into{.name = "in", .outer = segments, .steps = {}};
    into.steps = {recv(fixed(root), {fixed(me), kSegment}, Buffer::kOutput)};
    return {std::move(into)};
  }
  Lane own{.name = "own", .outer = segments, .steps = {}};
  own.steps = {copy({fixed(me), kSegment}, Buffer::kInput, Buffer::kOutput)};
  Lane far{.name = "far", .outer = segments, .inner = cluster.servers - 1, .steps = {}};
  for (std::uint32_t to_gpu = 0; to_gpu < g; ++to_gpu) {
    const Index to = on_gpu(rotate(server + 1, 1, cluster.servers), g, to_gpu);
    far.steps.push_back(send(to, {to, kSegment}, Buffer::kInput));
  }
  Lane near{.name = "near", .outer = segments, .inner = g - 1, .steps = {}};
  Index to = rotate(gpu + 1, 1, g);
  to.offset = static_cast<std::int32_t>(server * g);
  near.steps = {send(to, {to, kSegment}, Buffer::kInput)};
  return {std::move(own), std::move(far), std::move(near)};
}

}  // namespace

Result<Plan> plan_scatter(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  Result<Plan> plan = plan_blocks(request, cluster, tuning, "scatter", block_of_root(request, cluster, true));
  if (!plan) return plan;
  plan->lanes = [cluster, root = request.root, segments = plan->frame.layout.segments](std::uint32_t rank) {
    return lanes_of(rank, root, cluster, segments);
  };
  return plan;
}

}  // namespace r2ccl
