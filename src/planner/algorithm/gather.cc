// Every rank sends its block straight to the root, whose NICs are the bound. The root takes from all servers in turn, so that no
// sender has to wait for another one's whole block.

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
    Lane out{.name = "out", .outer = segments, .steps = {}};
    out.steps = {send(fixed(root), {fixed(me), kSegment}, Buffer::kInput)};
    return {std::move(out)};
  }
  Lane own{.name = "own", .outer = segments, .steps = {}};
  own.steps = {copy({fixed(me), kSegment}, Buffer::kInput, Buffer::kOutput)};
  Lane far{.name = "far", .outer = segments, .inner = cluster.servers - 1, .steps = {}};
  for (std::uint32_t from_gpu = 0; from_gpu < g; ++from_gpu) {
    const Index from = on_gpu(rotate(server + 1, 1, cluster.servers), g, from_gpu);
    far.steps.push_back(recv(from, {from, kSegment}, Buffer::kOutput));
  }
  Lane near{.name = "near", .outer = segments, .inner = g - 1, .steps = {}};
  Index from = rotate(gpu + 1, 1, g);
  from.offset = static_cast<std::int32_t>(server * g);
  near.steps = {recv(from, {from, kSegment}, Buffer::kOutput)};
  return {std::move(own), std::move(far), std::move(near)};
}

}  // namespace

Result<Plan> plan_gather(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  Result<Plan> plan = plan_blocks(request, cluster, tuning, "gather", block_of_root(request, cluster, false));
  if (!plan) return plan;
  plan->lanes = [cluster, root = request.root, segments = plan->frame.layout.segments](std::uint32_t rank) {
    return lanes_of(rank, root, cluster, segments);
  };
  return plan;
}

}  // namespace r2ccl
