// all_gather backwards. Every GPU adds up, inside its server, what goes to the GPUs of its own number, and sends each
// sum straight to its owner, which adds the servers in a fixed order. So a server sends each block once and receives
// only its own blocks' sums.

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/blocks/blocks.h"
#include "planner/algorithm/parts/pair_network.h"
#include "planner/algorithm/parts/steps.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kFarChannel = 0;
constexpr std::uint32_t kNearChannel = 1;
constexpr std::uint32_t kSumLane = 0;

const Index kSegment = outer_plus(0);

// Adds steps for the sum of the own input and what the other GPUs of the server give. It goes into `result`, or on to
// rank `to`. Sums on their way are in scratch, because the output is only the own block.
void add_neighbours(Lane& lane, std::uint32_t me, const Cluster& cluster, const Index& block, bool own,
                    const Index& to) {
  const std::uint32_t g = cluster.gpus;
  const auto [server, gpu] = place_of(me, g);
  for (std::uint32_t i = 1; i < g; ++i) {
    const Index from = fixed(server * g + (gpu + g - i) % g);
    const bool last = i + 1 == g;
    const Buffer between = own ? Buffer::kOutput : Buffer::kScratch;
    const Buffer target = last && !own ? Buffer::kNone : between;
    Step step = recv_reduce(from, {block, kSegment}, i == 1 ? Buffer::kInput : between, target, kNearChannel);
    lane.steps.push_back(last && !own ? and_send(step, to, kFarChannel) : step);
  }
}

std::vector<Lane> lanes_of_one(std::uint32_t me, std::uint32_t q, std::uint32_t segments) {
  const Index next = rotate(me + 1, 1, q);
  const Index previous = rotate(std::int64_t{me} - 1, -1, q);
  Lane out{.name = "out", .outer = segments, .inner = q - 1, .steps = {}};
  out.steps = {send(next, {next, kSegment}, Buffer::kInput, kFarChannel)};
  Lane into{.name = "in", .outer = segments, .inner = q - 1, .steps = {}};
  into.steps = {accumulate(previous, {fixed(me), kSegment}, Buffer::kInput, Buffer::kOutput, kFarChannel)};
  return {std::move(out), std::move(into)};
}

std::vector<Lane> lanes_of(std::uint32_t me, const Cluster& cluster, std::uint32_t segments) {
  const std::uint32_t q = cluster.servers;
  const std::uint32_t g = cluster.gpus;
  if (g == 1) return lanes_of_one(me, q, segments);
  const auto [server, gpu] = place_of(me, g);
  const Index block = on_gpu(rotate(server + 1, 1, q), g, gpu);

  Lane sum{.name = "sum", .outer = segments, .inner = q - 1, .inner_begin = g - 1, .steps = {}};
  add_neighbours(sum, me, cluster, fixed(me), true, {});
  add_neighbours(sum, me, cluster, block, false, block);
  std::vector<Lane> lanes{std::move(sum)};

  Lane give{.name = "give", .outer = segments, .inner = q, .steps = {}};
  for (std::uint32_t i = 1; i < g; ++i) {
    const std::uint32_t to = (gpu + i) % g;
    give.steps.push_back(
        send(fixed(server * g + to), {on_gpu(rotate(server, 1, q), g, to), kSegment}, Buffer::kInput, kNearChannel));
  }
  lanes.push_back(std::move(give));

  if (q > 1) {
    const Index from = on_gpu(rotate(std::int64_t{server} - 1, -1, q), g, gpu);
    const Wait own{.lane = kSumLane, .step = g - 2};
    Lane into{.name = "in", .outer = segments, .inner = q - 1, .steps = {}};
    into.steps = {after(own, recv_reduce(from, {fixed(me), kSegment}, Buffer::kOutput, Buffer::kOutput, kFarChannel))};
    lanes.push_back(std::move(into));
  }
  return lanes;
}

}  // namespace

Result<Plan> plan_reduce_scatter(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  Result<Plan> plan = plan_blocks(request, cluster, tuning, "reduce_scatter", block_per_server(request, cluster));
  if (!plan) return plan;
  plan->header.scratch_slots = cluster.gpus > 2 ? 1 : 0;
  plan->lanes = [cluster, segments = plan->header.layout.segments](std::uint32_t rank) {
    return lanes_of(rank, cluster, segments);
  };
  return plan;
}

}  // namespace r2ccl
