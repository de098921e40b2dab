// A tree over all ranks: sums go up, the result comes down, in a few segments. Binary, or flat where that is predicted
// to be faster.

#include "planner/algorithm/tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/steps.h"
#include "planner/pack.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kUpChannel = 0;
constexpr std::uint32_t kDownChannel = 1;
constexpr std::uint32_t kUpLane = 0;
constexpr std::uint32_t kFlatMost = 16;  // servers

// A tree of ranks from a tree of servers, `above[server]` (the root's is itself). GPUs are counted from the root's.
Tree tree_from(const Cluster& cluster, std::uint32_t root, const std::vector<std::uint32_t>& above,
               std::uint32_t degree) {
  const std::uint32_t g = cluster.gpus;
  const std::uint32_t speaker = root % g;
  Tree tree{.root = root, .parent = std::vector<std::uint32_t>(cluster.ranks()), .children = {}};
  tree.children.resize(cluster.ranks());
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
    const auto [server, gpu] = place_of(rank, g);
    const std::uint32_t from_speaker = (gpu + g - speaker) % g;
    tree.parent[rank] =
        from_speaker == 0 ? above[server] * g + speaker : server * g + ((from_speaker - 1) / degree + speaker) % g;
  }
  for (const bool far : {true, false}) {
    for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
      const std::uint32_t parent = tree.parent[rank];
      if (parent != rank && (parent / g != rank / g) == far) tree.children[parent].push_back(rank);
    }
  }
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
    std::uint32_t far = 0;
    std::uint32_t near = 0;
    for (std::uint32_t at = rank; at != root; at = tree.parent[at]) ++(tree.parent[at] / g == at / g ? near : far);
    tree.far_depth = std::max(tree.far_depth, far);
    tree.near_depth = std::max(tree.near_depth, near);
  }
  return tree;
}

}  // namespace

Tree tree_of(const Cluster& cluster, std::uint32_t root, std::uint32_t degree) {
  const std::uint32_t q = cluster.servers;
  const std::uint32_t first = root / cluster.gpus;
  std::vector<std::uint32_t> above(q, first);
  for (std::uint32_t i = 1; i < q; ++i) above[(first + i) % q] = (first + (i - 1) / degree) % q;
  return tree_from(cluster, root, above, degree);
}

Result<Tree> tree_along_rails(const Cluster& cluster, std::uint32_t root) {
  const std::uint32_t q = cluster.servers;
  std::vector<std::uint32_t> above(q, q);
  std::vector<std::uint32_t> reached{root / cluster.gpus};
  above[reached[0]] = reached[0];
  for (std::size_t next = 0; next < reached.size(); ++next) {
    const std::uint32_t u = reached[next];
    for (std::uint32_t v = 0; v < q; ++v) {
      bool joined = cluster.fabric == Fabric::kRouted;
      for (std::uint32_t k = 0; k < cluster.nics; ++k) joined = joined || rail_rate(cluster, u, v, k) > 0;
      if (above[v] < q || !joined) continue;
      above[v] = u;
      reached.push_back(v);
    }
  }
  for (std::uint32_t server = 0; server < q; ++server) {
    if (above[server] == q) {
      return fail(Fault::kMisuse,
                  fmt::format("no way over rails leads from server {} to server {}", reached[0], server));
    }
  }
  return tree_from(cluster, root, above, 2);
}

Lane up_lane(const Tree& tree, std::uint32_t me, std::uint32_t segments, Buffer sums, std::uint32_t channel) {
  const Where where{fixed(0), outer_plus(0)};
  const std::vector<std::uint32_t>& children = tree.children[me];
  const Index parent = fixed(tree.parent[me]);
  Lane lane{.name = "up", .outer = segments, .steps = {}};
  if (children.empty() && me != tree.root) lane.steps.push_back(send(parent, where, Buffer::kInput, channel));
  for (std::size_t i = 0; i < children.size(); ++i) {
    const bool last = i + 1 == children.size();
    const Buffer target = me == tree.root ? Buffer::kOutput : last ? Buffer::kNone : sums;
    const Buffer so_far = i == 0 ? Buffer::kInput : me == tree.root ? Buffer::kOutput : sums;
    const Step step = recv_reduce(fixed(children[i]), where, so_far, target, channel);
    lane.steps.push_back(last && me != tree.root ? and_send(step, parent, channel) : step);
  }
  return lane;
}

Lane down_lane(const Tree& tree, std::uint32_t me, std::uint32_t segments, Buffer source, std::uint32_t channel) {
  const Where where{fixed(0), outer_plus(0)};
  const std::vector<std::uint32_t>& children = tree.children[me];
  Lane lane{.name = "down", .outer = segments, .steps = {}};
  std::size_t served = 0;
  if (me != tree.root) {
    const Step step = recv(fixed(tree.parent[me]), where, Buffer::kOutput, channel);
    lane.steps.push_back(children.empty() ? step : and_send(step, fixed(children[0]), channel));
    served = 1;
  }
  for (; served < children.size(); ++served) {
    lane.steps.push_back(send(fixed(children[served]), where, me == tree.root ? source : Buffer::kOutput, channel));
  }
  return lane;
}

Result<TreePlan> plan_passes(const Tree& tree, std::uint64_t bytes, bool up, bool down, const Cluster& cluster,
                             const Tuning& tuning) {
  const double size = static_cast<double>(bytes);
  const double ways = (up ? 1.0 : 0.0) + (down ? 1.0 : 0.0);
  const std::uint32_t g = cluster.gpus;
  PairBytes traffic(cluster.servers);
  double near_s = 0;
  double messages = 0;
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
    const std::uint32_t parent = tree.parent[rank];
    double near = parent != rank && parent / g == rank / g ? 1 : 0;
    double far = parent != rank && parent / g != rank / g ? 1 : 0;
    for (const std::uint32_t child : tree.children[rank]) ++(child / g == rank / g ? near : far);
    near_s = std::max(near_s, ways * near * size / cluster.intra_rate);
    messages = std::max(messages, ways * far / cluster.played);
    if (parent / g == rank / g) continue;
    if (up) traffic.at(rank / g, parent / g) += size;
    if (down) traffic.at(parent / g, rank / g) += size;
  }
  // Where servers share processors, what the others send and receive costs as much as what the busiest does.
  messages = std::max(messages, ways * (cluster.servers - 1) / cluster.servers);
  Result<PairNetwork> network = network_for(traffic, cluster);
  if (!network) return std::unexpected(network.error());
  const double ideal_s = std::max(network->time_s, near_s);
  // A segment passes every node before the last one has it; a node serves its children one after another.
  const double fill_s = tree.far_depth * network->time_s + ways * tree.near_depth * near_s;
  const Exchange exchange{
      .ideal_s = ideal_s,
      .kappa = 0,
      .fill_s = fill_s,
      .messages = cluster.messages(messages, messages),
      .latency_s = ways * (tree.far_depth * cluster.alpha_s + tree.near_depth * cluster.intra_alpha_s),
      .message_bytes = bytes};
  return TreePlan{choose_pipeline(exchange, cluster, tuning), std::move(network->shares)};
}

Result<Plan> plan_tree(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  Tree tree = tree_of(cluster, 0, 2);
  Result<TreePlan> passes = plan_passes(tree, request.bytes, true, true, cluster, tuning);
  // Of few servers all may hang on the root: fewer hops, more messages there.
  if (passes && cluster.servers > 3 && cluster.servers <= kFlatMost) {
    Tree flat = tree_of(cluster, 0, cluster.servers - 1);
    Result<TreePlan> sooner = plan_passes(flat, request.bytes, true, true, cluster, tuning);
    if (sooner && sooner->pipeline.predicted_s < passes->pipeline.predicted_s) {
      tree = std::move(flat);
      passes = std::move(sooner);
    }
  }
  if (!passes) {
    const Result<Tree> around = tree_along_rails(cluster, 0);
    if (!around) return std::unexpected(around.error());
    tree = *around;
    passes = plan_passes(tree, request.bytes, true, true, cluster, tuning);
    if (!passes) return std::unexpected(passes.error());
  }
  const std::uint32_t segments = passes->pipeline.segments;

  Plan plan;
  plan.header = header_for(request, cluster, "tree");
  plan.header.layout = Layout::equal(1, segments);
  plan.header.slots = passes->pipeline.slots;
  plan.header.shares = std::move(passes->shares);
  plan.predicted_s = passes->pipeline.predicted_s;
  plan.lanes = [tree = std::move(tree), segments](std::uint32_t rank) {
    Lane up = up_lane(tree, rank, segments, Buffer::kOutput, kUpChannel);
    Lane down = down_lane(tree, rank, segments, Buffer::kOutput, kDownChannel);
    // The root sends what it summed. For the others the result proves that their sum was received; it must be seen, as
    // the result may be written over what the sum was made from.
    down.steps[0].waits.push_back({.lane = kUpLane, .step = static_cast<std::uint32_t>(up.steps.size()) - 1});
    return std::vector<Lane>{std::move(up), std::move(down)};
  };
  return plan;
}

}  // namespace r2ccl
