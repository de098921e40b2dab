// Every rank sends every other its block straight, peers in rotation. Not in place: the block that goes out and the one
// that comes in would share memory, and neither proves that the other has arrived.

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/blocks/blocks.h"
#include "planner/algorithm/parts/pair_network.h"
#include "planner/algorithm/parts/steps.h"

namespace r2ccl {
namespace {

const Index kSegment = outer_plus(0);

std::vector<Lane> lanes_of(std::uint32_t me, std::uint32_t p, std::uint32_t segments) {
  const Index to = rotate(me + 1, 1, p);
  const Index from = rotate(std::int64_t{me} - 1, -1, p);
  Lane out{.name = "out", .outer = segments, .inner = p - 1, .steps = {}};
  out.steps = {send(to, {to, kSegment}, Buffer::kInput)};
  Lane into{.name = "in", .outer = segments, .inner = p - 1, .steps = {}};
  into.steps = {recv(from, {from, kSegment}, Buffer::kOutput)};
  Lane own{.name = "own", .outer = segments, .steps = {}};
  own.steps = {copy({fixed(me), kSegment}, Buffer::kInput, Buffer::kOutput)};
  return {std::move(out), std::move(into), std::move(own)};
}

}  // namespace

Result<Plan> plan_all_to_all(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  const std::uint32_t p = cluster.ranks();
  const double g = cluster.gpus;
  const double block = static_cast<double>(request.bytes) / p;
  const BlockWork work{.traffic = all_pairs(cluster.servers, g * g * block),
                       .near_bytes = block * (g - 1),
                       .stages = 1,
                       .messages = g * (p - g),
                       .on_connection = 1};
  Result<Plan> plan = plan_blocks(request, cluster, tuning, "all_to_all", work);
  if (!plan) return plan;
  plan->lanes = [p, segments = plan->header.layout.segments](std::uint32_t rank) {
    return lanes_of(rank, p, segments);
  };
  return plan;
}

}  // namespace r2ccl
