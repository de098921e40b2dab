// Every GPU sends its block straight to the GPU of the same number in every other server, which hands it on inside its
// server. So a block crosses the NICs of a server once, and every server receives exactly what it must. Blocks are cut
// into segments, so that one spreads inside while the next comes in.

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/blocks/blocks.h"
#include "planner/algorithm/parts/pair_network.h"
#include "planner/algorithm/parts/steps.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kFarChannel = 0;
constexpr std::uint32_t kNearChannel = 1;

const Index kSegment = outer_plus(0);

// Passes the blocks of this GPU's number on to the others of its server: the own one first, then as they come in.
Lane in_lane(std::uint32_t me, const Cluster& cluster, std::uint32_t segments) {
  const std::uint32_t g = cluster.gpus;
  const auto [server, gpu] = place_of(me, g);
  const Index from = on_gpu(rotate(std::int64_t{server} - 1, -1, cluster.servers), g, gpu);
  Lane lane{.name = "in", .outer = segments, .inner = cluster.servers - 1, .inner_begin = g - 1, .steps = {}};
  const auto neighbour = [&](std::uint32_t i) { return fixed(server * g + (gpu + i) % g); };
  for (std::uint32_t i = 1; i < g; ++i) {
    lane.steps.push_back(send(neighbour(i), {fixed(me), kSegment}, Buffer::kInput, kNearChannel));
  }
  Step take = recv(from, {from, kSegment}, Buffer::kOutput, kFarChannel);
  lane.steps.push_back(g > 1 ? and_send(take, neighbour(1), kNearChannel) : take);
  for (std::uint32_t i = 2; i < g; ++i) {
    lane.steps.push_back(send(neighbour(i), {from, kSegment}, Buffer::kOutput, kNearChannel));
  }
  return lane;
}

// Takes what the other GPUs of the server pass on, in the order in which they do.
Lane near_lane(std::uint32_t me, const Cluster& cluster, std::uint32_t segments) {
  const std::uint32_t g = cluster.gpus;
  const auto [server, gpu] = place_of(me, g);
  Lane lane{.name = "near", .outer = segments, .inner = cluster.servers, .steps = {}};
  for (std::uint32_t i = 1; i < g; ++i) {
    const std::uint32_t from = (gpu + g - i) % g;
    const Index block = on_gpu(rotate(server, -1, cluster.servers), g, from);
    lane.steps.push_back(recv(fixed(server * g + from), {block, kSegment}, Buffer::kOutput, kNearChannel));
  }
  return lane;
}

std::vector<Lane> lanes_of(std::uint32_t me, const Cluster& cluster, std::uint32_t segments) {
  const std::uint32_t g = cluster.gpus;
  const auto [server, gpu] = place_of(me, g);
  Lane own{.name = "own", .outer = segments, .steps = {}};
  own.steps = {copy({fixed(me), kSegment}, Buffer::kInput, Buffer::kOutput)};
  std::vector<Lane> lanes{std::move(own)};
  if (cluster.servers > 1) {
    Lane out{.name = "out", .outer = segments, .inner = cluster.servers - 1, .steps = {}};
    const Index to = on_gpu(rotate(server + 1, 1, cluster.servers), g, gpu);
    out.steps = {send(to, {fixed(me), kSegment}, Buffer::kInput, kFarChannel)};
    lanes.push_back(std::move(out));
  }
  lanes.push_back(in_lane(me, cluster, segments));
  if (g > 1) lanes.push_back(near_lane(me, cluster, segments));
  return lanes;
}

}  // namespace

Result<Plan> plan_all_gather(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  Result<Plan> plan = plan_blocks(request, cluster, tuning, "all_gather", block_per_server(request, cluster));
  if (!plan) return plan;
  plan->lanes = [cluster, segments = plan->header.layout.segments](std::uint32_t rank) {
    return lanes_of(rank, cluster, segments);
  };
  return plan;
}

}  // namespace r2ccl
