#include "planner/algorithm/parts/relays.h"

#include <algorithm>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/tree.h"

namespace r2ccl {

std::vector<std::uint32_t> Relays::neighbours(std::uint32_t gpu) const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 1; i < gpus_; ++i) found.push_back((gpu + i) % gpus_);
  return found;
}

std::vector<std::uint32_t> Relays::other_sharers(std::uint32_t gpu) const {
  std::vector<std::uint32_t> found = neighbours(gpu);
  std::erase_if(found, [this](std::uint32_t other) { return !has_shard(other); });
  return found;
}

std::array<Relays::Run, 2> Relays::others(std::uint32_t server) const {
  const std::uint32_t from_root = (server + servers_ - root_.server) % servers_;
  return {Run{rotate(server + 1, 1, servers_), servers_ - 1 - from_root},
          Run{rotate(std::int64_t{server} - 1, -1, servers_), from_root - 1}};
}

Layout Relays::layout(std::uint32_t segments) const {
  Layout layout;
  layout.bounds = {0};
  for (std::uint32_t piece = 0; piece < everything(); ++piece) {
    const bool empty = servers_ > 1 && piece % servers_ == root_.server;
    layout.bounds.push_back(layout.bounds.back() + (empty ? 0 : 1));
  }
  layout.segments = segments;
  layout.spans = {{0, everything()}};
  return layout;
}

void add_near_lanes(std::vector<Lane>& lanes, const RankPlace& me, const Relays& relays, std::uint32_t segments,
                    bool outward) {
  const auto add = [&](const char* which, const auto& part, std::uint32_t count, std::uint32_t channel) {
    Lane lane{.name = outward ? "near" : "give", .outer = segments, .inner = count, .steps = {}};
    lane.name += which;
    for (const std::uint32_t other : relays.other_sharers(me.gpu)) {
      const Index peer = relays.rank(me.server, other);
      const Where where{relays.piece(part, other), outer_plus(0)};
      lane.steps.push_back(outward ? recv(peer, where, Buffer::kOutput, channel)
                                   : send(peer, where, Buffer::kInput, channel));
    }
    lanes.push_back(std::move(lane));
  };
  if (me.server == relays.root_server()) {
    const Relays::Run all = relays.all();
    return add("", all.server, all.count, kNearChannel[0]);
  }
  add("_own", me.server, 1, kOwnPartChannel);
  const auto [behind, before] = relays.others(me.server);
  if (behind.count > 0) add("_after", behind.server, behind.count, kNearChannel[0]);
  if (before.count > 0) add("_before", before.server, before.count, kNearChannel[1]);
}

Result<Plan> plan_relays(const Request& request, const Cluster& cluster, const Tuning& tuning, std::string_view name,
                         bool outward) {
  const Relays relays(cluster, request.root);
  const std::uint32_t q = cluster.servers;
  const double bytes = static_cast<double>(request.bytes);
  PairBytes traffic = all_pairs(q, q > 1 ? bytes / (q - 1) : 0);
  for (std::uint32_t server = 0; server < q; ++server) {
    (outward ? traffic.at(server, relays.root_server()) : traffic.at(relays.root_server(), server)) = 0;
  }
  Result<PairNetwork> network = network_for(traffic, cluster);
  if (!network) return std::unexpected(network.error());
  const double near_s = cluster.gpus > 1 ? bytes / cluster.intra_rate : 0;
  const double far_hops = std::min(q - 1, 2U);
  const double near_hops = cluster.gpus > 1 ? 2 : 0;
  const double ideal_s = std::max(network->time_s, near_s);
  const Exchange exchange{.ideal_s = ideal_s,
                          .kappa = 0,
                          .fill_s = far_hops * network->time_s + near_hops * near_s - ideal_s,
                          .messages = 1.0 * relays.shards() * (q > 1 ? q - 1 : 0) / cluster.nics,
                          .latency_s = far_hops * cluster.alpha_s + near_hops * cluster.intra_alpha_s,
                          .message_bytes = request.bytes / relays.shards() / std::max(1U, q - 1)};
  const Pipeline pipeline = choose_pipeline(exchange, cluster, tuning);

  Plan plan;
  plan.header = header_for(request, cluster, name);
  plan.header.layout = relays.layout(pipeline.segments);
  plan.header.slots = pipeline.slots;
  if (cluster.gpus > 1) {
    // Neighbours exchange a message for every relay in a segment.
    const double interval_s = ideal_s / pipeline.segments / relays.all().count;
    plan.header.slots = std::max(plan.header.slots, slots_for(interval_s, cluster.intra_alpha_s));
  }
  plan.header.shares = std::move(network->shares);
  plan.predicted_s = pipeline.predicted_s;
  return plan;
}

Result<Plan> plan_one_tree(const Request& request, const Cluster& cluster, const Tuning& tuning, std::string_view name,
                           bool outward) {
  Tree best;
  Result<TreePlan> passes = fail(Fault::kMisuse, "");
  const auto consider = [&](Tree tree) {
    Result<TreePlan> candidate = plan_passes(tree, request.bytes, !outward, outward, cluster, tuning);
    if (!candidate || (passes && passes->pipeline.predicted_s <= candidate->pipeline.predicted_s)) return;
    passes = std::move(candidate);
    best = std::move(tree);
  };
  const std::uint32_t widest = std::max(cluster.servers, cluster.gpus);
  for (std::uint32_t degree = 2; degree < 2 * widest; degree *= 2) consider(tree_of(cluster, request.root, degree));
  if (!passes) {
    Result<Tree> around = tree_along_rails(cluster, request.root);
    if (!around) return std::unexpected(around.error());
    consider(std::move(*around));
  }
  const std::uint32_t segments = passes->pipeline.segments;

  Plan plan;
  plan.header = header_for(request, cluster, name);
  plan.header.layout = Layout::equal(1, segments);
  plan.header.slots = passes->pipeline.slots;
  plan.header.scratch_slots = outward ? 0 : 1;
  plan.header.shares = std::move(passes->shares);
  plan.predicted_s = passes->pipeline.predicted_s;
  plan.lanes = [tree = std::move(best), segments, outward](std::uint32_t rank) {
    if (!outward) return std::vector<Lane>{up_lane(tree, rank, segments, Buffer::kScratch, 0)};
    std::vector<Lane> lanes{down_lane(tree, rank, segments, Buffer::kInput, 0)};
    if (rank == tree.root) {
      Lane own{.name = "own", .outer = segments, .steps = {}};
      own.steps = {copy({fixed(0), outer_plus(0)}, Buffer::kInput, Buffer::kOutput)};
      lanes.push_back(std::move(own));
    }
    return lanes;
  };
  return plan;
}

}  // namespace r2ccl
