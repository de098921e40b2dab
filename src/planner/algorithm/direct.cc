// All ranks talk to all ranks at once, in one segment. In two hops: every rank owns an equal piece, is sent it by all
// others, adds and sends the sum back. In one hop, for the smallest messages: every rank sends its whole input to all
// others, and each adds all of them by itself. Everybody adds in the order of ranks, so all get the same bits.

#include <algorithm>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/pair_network.h"
#include "planner/algorithm/parts/single.h"
#include "planner/algorithm/parts/steps.h"
#include "planner/algorithm/parts/two_hops.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kOutLane = 0;
constexpr std::uint32_t kLowerLane = 1;

const Where kWhole{fixed(0), fixed(0)};

// The input is sent from a copy: in place, the sum is written over it while the sends are under way, and waiting for
// their receipts would cost the second hop that this way saves.
std::vector<Lane> one_hop(std::uint32_t me, std::uint32_t p) {
  const Index next = rotate(me + 1, 1, p);
  Lane out{.name = "out", .inner = p - 1, .inner_begin = 1, .steps = {}};
  out.steps = {with_destination(scratch(0), copy(kWhole, Buffer::kInput, Buffer::kScratch)),
               with_source(scratch(0), send(next, kWhole, Buffer::kScratch))};
  std::vector<Lane> lanes{std::move(out)};
  const Wait copied{.lane = kOutLane, .step = 0};

  if (me > 0) {
    Lane lower{.name = "lower", .inner = me, .inner_begin = 0, .inner_end = 1, .steps = {}};
    lower.steps = {after(copied, accumulate(inner_index(), kWhole, Buffer::kNone, Buffer::kOutput)),
                   reduce(kWhole, scratch(0), Buffer::kOutput)};
    lanes.push_back(std::move(lower));
  }
  if (me + 1 < p) {
    const Index from{.base = static_cast<std::int32_t>(me + 1), .by_inner = 1};
    Lane upper{.name = "upper", .inner = p - 1 - me, .steps = {}};
    upper.steps = {
        me == 0 ? after(copied, accumulate(from, kWhole, Buffer::kInput, Buffer::kOutput))
                : after({.lane = kLowerLane, .step = 1}, recv_reduce(from, kWhole, Buffer::kOutput, Buffer::kOutput))};
    lanes.push_back(std::move(upper));
  }
  return lanes;
}

struct Cost {
  PairNetwork network;
  double time_s = 0;
};

// Each rank sends `bytes` to each other rank, `hops` times one after another.
Result<Cost> cost_of(double bytes, double hops, const Cluster& cluster) {
  const double g = cluster.gpus;
  Result<PairNetwork> network = network_for(all_pairs(cluster.servers, hops * g * g * bytes), cluster);
  if (!network) return std::unexpected(network.error());
  const double messages = cluster.messages(hops * (cluster.ranks() - g));
  const double intra_s = hops * (g - 1) * bytes / cluster.intra_rate;
  const double alpha_s = cluster.servers > 1 ? cluster.alpha_s : cluster.intra_alpha_s;
  const double far_s = network->time_s + cluster.crowded(network->time_s) + messages * cluster.port_cost_s;
  const double time_s = std::max(far_s, intra_s) + hops * alpha_s + cluster.reduce_s(bytes * (cluster.ranks() - 1));
  return Cost{std::move(*network), time_s};
}

}  // namespace

Result<Plan> plan_direct(const Request& request, const Cluster& cluster, const Tuning&) {
  const std::uint32_t p = cluster.ranks();
  const double bytes = static_cast<double>(request.bytes);
  Result<Cost> two = cost_of(bytes / p, 2, cluster);
  if (!two) return std::unexpected(two.error());
  Result<Cost> one = cost_of(bytes, 1, cluster);
  if (!one) return std::unexpected(one.error());
  const bool in_one = one->time_s < two->time_s;
  Cost& cost = in_one ? *one : *two;

  Plan plan;
  plan.header = header_for(request, cluster, "direct");
  plan.header.layout = Layout::equal(in_one ? 1 : p);
  plan.header.scratch_slots = in_one ? 1 : 0;
  plan.header.shares = std::move(cost.network.shares);
  plan.predicted_s = cost.time_s;
  plan.lanes = [p, in_one](std::uint32_t rank) {
    return in_one ? one_hop(rank, p) : two_hops(rank, p, {.begin = 0, .end = 1}, {.begin = 1, .end = 2});
  };
  return plan;
}

Result<Plan> plan_single(const Request& request, const Cluster& cluster) {
  Plan plan;
  plan.header = header_for(request, cluster, "copy");
  plan.header.layout = Layout::equal(1);
  plan.lanes = [](std::uint32_t) {
    Lane lane{.name = "copy", .steps = {}};
    lane.steps = {copy(kWhole, Buffer::kInput, Buffer::kOutput)};
    return std::vector<Lane>{std::move(lane)};
  };
  return plan;
}

}  // namespace r2ccl
