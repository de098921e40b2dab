// Packed trees: a part of the data is added up along a tree towards its root and the sum goes back down the same tree.
// All trees run side by side, in segments. On isolated rails the trees come from pack_trees() (stars, and relays where
// servers share too little); on a routed fabric they are of low degree, which keeps the number of peers per tree small.
//
// Everything a rank sends is one lane and everything it receives another; a round of both loops handles one segment of
// every tree. What a server passes on it handles some rounds later than what it starts from, so that no lane waits for
// a message that has just been sent. Both ends of an edge handle a message in the same round and in the same order.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/kary_trees.h"
#include "planner/algorithm/parts/steps.h"
#include "planner/ownership.h"
#include "planner/pipeline.h"
#include "planner/rails.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kUpChannel = 0;
constexpr std::uint32_t kDownChannel = 1;
constexpr std::uint32_t kInLane = 1;
constexpr std::uint32_t kDegree = 4;   // of trees on a routed fabric
constexpr std::uint32_t kTrees = 128;  // of them, at most

struct RailTree {
  TreeShape shape;
  std::vector<std::uint32_t> height;  // [server]: edges to the farthest leaf below
  std::vector<std::uint32_t> depth;   // [server]: edges to the root

  std::uint32_t levels() const { return height[shape.root]; }
};

RailTree measured(TreeShape shape) {
  const std::size_t q = shape.parent.size();
  RailTree tree{
      .shape = std::move(shape), .height = std::vector<std::uint32_t>(q, 0), .depth = std::vector<std::uint32_t>(q, 0)};
  for (std::uint32_t server = 0; server < q; ++server) {
    std::uint32_t edges = 0;
    for (std::uint32_t at = server; at != tree.shape.root; at = tree.shape.parent[at]) {
      tree.height[at] = std::max(tree.height[at], edges++);
    }
    tree.height[tree.shape.root] = std::max(tree.height[tree.shape.root], edges);
    tree.depth[server] = edges;
  }
  return tree;
}

// When things happen. A round has `round` ticks, and tree t begins at tick t % round of the round of its segment, so
// that many trees follow each other. In a round of one tick all trees begin at once.
struct Pace {
  std::uint32_t segments = 1;
  std::uint32_t slots = 2;
  std::uint32_t round = 1;
  std::uint32_t hop = 1;   // ticks between receiving and passing on
  std::uint32_t turn = 2;  // … at the root
};

struct Forest {
  std::uint32_t servers = 0;
  std::vector<RailTree> trees;
  Pace pace;

  std::uint32_t up_tick(const RailTree& tree, std::uint32_t child) const { return tree.height[child] * pace.hop; }
  std::uint32_t down_tick(const RailTree& tree, std::uint32_t child) const {
    return (tree.levels() - 1) * pace.hop + pace.turn + (tree.depth[child] - 1) * pace.hop;
  }
  std::uint32_t rounds() const {
    std::uint32_t last = 0;
    for (std::uint32_t t = 0; t < trees.size(); ++t) {
      const std::uint32_t ticks = (2 * trees[t].levels() - 2) * pace.hop + pace.turn;
      last = std::max(last, (t % pace.round + ticks) / pace.round);
    }
    return pace.segments + last;
  }
};

// A message of a rank in one round: to or from `peer`, for the edge between `child` and its parent.
struct TreeEvent {
  std::uint32_t delay = 0;  // rounds after the segment's own
  std::uint32_t tick = 0;   // in the round
  std::uint32_t turn = 0;   // peers in rotation, so that at any time everybody sends to somebody else
  bool down = false;
  std::uint32_t tree = 0;
  std::uint32_t peer = 0;

  auto order() const { return std::tuple(tick, turn, down, tree); }
};

struct Events {
  std::vector<TreeEvent> out;
  std::vector<TreeEvent> into;
};

Events events_of(const Forest& forest, std::uint32_t me) {
  const std::uint32_t q = forest.servers;
  Events events;
  const auto add = [&](std::uint32_t t, std::uint32_t ticks, bool outgoing, bool down, std::uint32_t peer) {
    const std::uint32_t at = t % forest.pace.round + ticks;
    const std::uint32_t turn = outgoing ? (peer + q - me) % q : (me + q - peer) % q;
    (outgoing ? events.out : events.into)
        .push_back({at / forest.pace.round, at % forest.pace.round, turn, down, t, peer});
  };
  for (std::uint32_t t = 0; t < forest.trees.size(); ++t) {
    const RailTree& tree = forest.trees[t];
    for (std::uint32_t child = 0; child < q; ++child) {
      if (child == tree.shape.root) continue;
      const std::uint32_t parent = tree.shape.parent[child];
      if (child != me && parent != me) continue;
      const std::uint32_t peer = child == me ? parent : child;
      add(t, forest.up_tick(tree, child), child == me, false, peer);
      add(t, forest.down_tick(tree, child), parent == me, true, peer);
    }
  }
  std::ranges::sort(events.out, {}, &TreeEvent::order);
  std::ranges::sort(events.into, {}, &TreeEvent::order);
  return events;
}

class RankLanes final {
 public:
  RankLanes(const Forest& forest, std::uint32_t me) : forest_(forest), me_(me), events_(events_of(forest, me)) {}

  std::vector<Lane> make() {
    Lane out{.name = "out", .outer = forest_.rounds(), .steps = {}};
    Lane into{.name = "in", .outer = forest_.rounds(), .steps = {}};
    for (const TreeEvent& event : events_.into) into.steps.push_back(timed(event, receive(event)));
    for (const TreeEvent& event : events_.out) out.steps.push_back(timed(event, give(event)));
    return {std::move(out), std::move(into)};
  }

 private:
  Step timed(const TreeEvent& event, Step step) const {
    step.segment = outer_plus(-static_cast<std::int32_t>(event.delay));
    return during(event.delay, event.delay + forest_.pace.segments, std::move(step));
  }
  // Whether `a` comes before `b` for the same segment.
  static bool before(const TreeEvent& a, const TreeEvent& b) {
    return a.delay != b.delay ? a.delay < b.delay : a.order() < b.order();
  }

  Step receive(const TreeEvent& event) const {
    const Where where{fixed(event.tree), {}};
    if (event.down) return recv(fixed(event.peer), where, Buffer::kOutput, kDownChannel);
    const bool first = std::ranges::none_of(events_.into, [&](const TreeEvent& other) {
      return other.tree == event.tree && !other.down && before(other, event);
    });
    const Buffer so_far = first ? Buffer::kInput : Buffer::kOutput;
    return recv_reduce(fixed(event.peer), where, so_far, Buffer::kOutput, kUpChannel);
  }

  // Sends what the last receive before it made: the sum of the children, the result from above; or the input of a leaf.
  Step give(const TreeEvent& event) const {
    const RailTree& tree = forest_.trees[event.tree];
    const bool from_root = event.down && tree.shape.root == me_;
    const bool wants_down = event.down && !from_root;
    const TreeEvent* made_by = nullptr;
    for (const TreeEvent& other : events_.into) {
      if (other.tree != event.tree || other.down != wants_down) continue;
      if (made_by == nullptr || before(*made_by, other)) made_by = &other;
    }
    const Where where{fixed(event.tree), {}};
    const std::uint32_t channel = event.down ? kDownChannel : kUpChannel;
    Step step = send(fixed(event.peer), where, made_by == nullptr ? Buffer::kInput : Buffer::kOutput, channel);
    if (made_by != nullptr) {
      step.waits.push_back(
          {.lane = kInLane,
           .step = static_cast<std::uint32_t>(made_by - events_.into.data()),
           .outer_offset = static_cast<std::int32_t>(made_by->delay) - static_cast<std::int32_t>(event.delay)});
    }
    return step;
  }

  const Forest& forest_;
  std::uint32_t me_;
  Events events_;
};

// How unevenly adding up and giving back load the servers (pipeline.h): both overlap except in the first and last
// rounds.
double unevenness(const Forest& forest, const Cluster& cluster) {
  double half = 0;
  double whole = 0;
  for (std::uint32_t server = 0; server < forest.servers; ++server) {
    double children = 0;
    double rooted = 0;
    for (const RailTree& tree : forest.trees) {
      if (tree.shape.root == server) rooted += tree.shape.weight;
      for (std::uint32_t other = 0; other < forest.servers; ++other) {
        if (other != tree.shape.root && tree.shape.parent[other] == server) children += tree.shape.weight;
      }
    }
    const double rate = cluster.server_rate(server);
    half = std::max(half, std::max(1 - rooted, children) / rate);
    whole = std::max(whole, (1 - rooted + children) / rate);
  }
  return whole > 0 ? std::max(0.0, 2 * half / whole - 1) : 0;
}

std::uint32_t most_levels(const Forest& forest) {
  std::uint32_t levels = 1;
  for (const RailTree& tree : forest.trees) levels = std::max(levels, tree.levels());
  return levels;
}

// How many messages the busiest server handles for one segment.
double most_messages(const Forest& forest) {
  std::vector<double> messages(forest.servers, 0);
  for (const RailTree& tree : forest.trees) {
    for (std::uint32_t server = 0; server < forest.servers; ++server) {
      if (server == tree.shape.root) continue;
      ++messages[server];
      ++messages[tree.shape.parent[server]];
    }
  }
  return *std::ranges::max_element(messages);
}

// The most trees that share an edge in one direction: so many messages a connection has in a round.
std::uint32_t most_shared(const Forest& forest) {
  std::vector<std::uint32_t> trees(std::size_t{forest.servers} * forest.servers, 0);
  for (const RailTree& tree : forest.trees) {
    for (std::uint32_t child = 0; child < forest.servers; ++child) {
      if (child != tree.shape.root) ++trees[child * forest.servers + tree.shape.parent[child]];
    }
  }
  return *std::ranges::max_element(trees);
}

struct Packed {
  Forest forest;
  RailShares shares;
  double load = 0;  // seconds per byte
};

Result<Packed> pack(const Cluster& cluster) {
  Packed packed;
  packed.forest.servers = cluster.servers;
  std::vector<TreeShape> shapes;
  if (cluster.fabric == Fabric::kRails) {
    Result<TreePacking> packing = pack_trees(cluster);
    if (!packing) return std::unexpected(packing.error());
    shapes = std::move(packing->shapes);
    packed.shares = std::move(packing->shares);
    packed.load = packing->load;
  } else {
    std::vector<double> bandwidth;
    for (std::uint32_t server = 0; server < cluster.servers; ++server) bandwidth.push_back(cluster.server_rate(server));
    const Ownership owned = ownership(bandwidth);
    shapes = kary_trees(owned.rho, kDegree, std::min(kTrees, 16 * cluster.servers));
    packed.load = owned.bound;
    packed.forest.pace.round = static_cast<std::uint32_t>(shapes.size());
  }
  for (TreeShape& shape : shapes) packed.forest.trees.push_back(measured(std::move(shape)));
  return packed;
}

// Sets the pace; returns the predicted time.
double set_pace(Packed& packed, const Request& request, const Cluster& cluster, const Tuning& tuning) {
  Forest& forest = packed.forest;
  const double ideal_s = packed.load * static_cast<double>(request.bytes);
  const double trees = static_cast<double>(forest.trees.size());
  const std::uint32_t levels = most_levels(forest);
  const bool in_turn = forest.pace.round > 1;
  const Exchange exchange{.ideal_s = ideal_s,
                          .kappa = in_turn ? 0 : unevenness(forest, cluster),
                          .fill_s = in_turn ? ideal_s * 8 * levels / trees : 0,
                          .messages = most_messages(forest) / cluster.nics,
                          .latency_s = 2 * levels * cluster.alpha_s,
                          .message_bytes = request.bytes / (in_turn ? forest.pace.round : cluster.servers)};
  const Pipeline pipeline = choose_pipeline(exchange, cluster, tuning);
  Pace& pace = forest.pace;
  pace.segments = pipeline.segments;
  if (!in_turn) {
    pace.turn = pipeline.lag;
    pace.hop = pipeline.lag;
    pace.slots = pipeline.slots + most_shared(forest) - 1;
    return pipeline.predicted_s;
  }
  // A hop takes its latency both ways, and the messages of other trees that meet at a server; ticks are short, so room
  // is cheap, and a lane that waits holds up all its trees.
  const double tick_s = std::max(ideal_s / (trees * pace.segments), 1e-9);
  pace.hop =
      4 + cluster.servers / 3 + 2 * static_cast<std::uint32_t>(std::min(std::ceil(cluster.alpha_s / tick_s), trees));
  pace.turn = pace.hop;
  const double between_s = tick_s * std::max(1.0, cluster.servers / 2.0);  // messages of one connection
  pace.slots = static_cast<std::uint32_t>(std::min(10 + std::ceil(2 * cluster.alpha_s / between_s), 32.0));
  return pipeline.predicted_s;
}

}  // namespace

Result<Plan> plan_trees(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  if (cluster.gpus != 1) {
    return fail(Fault::kMisuse, fmt::format("trees plans for one GPU per server; there are {}", cluster.gpus));
  }
  if (cluster.servers < 2) return fail(Fault::kMisuse, "trees needs 2 or more servers; there is 1");
  Result<Packed> packed = pack(cluster);
  if (!packed) return std::unexpected(packed.error());

  Plan plan;
  plan.predicted_s = set_pace(*packed, request, cluster, tuning);
  plan.header = header_for(request, cluster, "trees");
  std::vector<double> weights;
  for (const RailTree& tree : packed->forest.trees) weights.push_back(tree.shape.weight);
  plan.header.layout.bounds = piece_bounds(weights);
  plan.header.layout.segments = packed->forest.pace.segments;
  plan.header.slots = packed->forest.pace.slots;
  plan.header.shares = std::move(packed->shares);
  const auto forest = std::make_shared<const Forest>(std::move(packed->forest));
  plan.lanes = [forest](std::uint32_t rank) { return RankLanes(*forest, rank).make(); };
  return plan;
}

}  // namespace r2ccl
