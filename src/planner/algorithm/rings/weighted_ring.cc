// A ring with unequal ownership: the slow server is the root of more of the data than the others, and a root handles
// its share once instead of twice. With one slow server that meets the bound of ports that serve one peer at a time, on
// a ring's two peers.
//
// All ports are busy all the time in the ideal, so the order at each port decides. It comes from playing the ring once
// with a priority at each port: the chunk that is earliest in its owner's share, a little later for each hop it has
// made.

#include <algorithm>
#include <cmath>
#include <memory>
#include <queue>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/pair_network.h"
#include "planner/algorithm/parts/port_lists.h"
#include "planner/algorithm/parts/straggler.h"
#include "planner/bounds.h"

namespace r2ccl {
namespace {

// One chunk of a share; pieces of the layout in this order.
struct Chunk {
  std::uint32_t root = 0;
  double position = 0;     // in the root's share, from 0 to 1
  std::uint64_t size = 0;  // in units of the layout
};

struct RingHop {
  std::uint32_t chunk = 0;
  std::uint32_t number = 0;  // 0 to 2 p - 3; the first p - 1 add, the others store
};

struct Ring {
  std::uint32_t servers = 0;
  Straggler straggler;
  std::vector<Chunk> chunks;
  std::vector<std::uint64_t> bounds;
  std::vector<std::vector<RingHop>> order;  // [server]: what it sends to the next one

  std::uint32_t hops() const { return 2 * (servers - 1); }
  std::uint32_t sender(const RingHop& hop) const { return (chunks[hop.chunk].root + 1 + hop.number) % servers; }
};

// Shares w: every healthy edge moves 2 - 2 w_h and the slow ones l (2 - w_S - w_h), which is the bound for both.
std::vector<double> shares_of(std::uint32_t servers, const Straggler& straggler) {
  const double healthy = std::max(0.0, 1 - one_port_bound(static_cast<int>(servers), straggler.slowdown) / 2);
  std::vector<double> shares(servers, healthy);
  shares[straggler.server] = 1 - healthy * (servers - 1);
  return shares;
}

void cut_chunks(Ring& ring, std::uint32_t segments) {
  const std::vector<double> shares = shares_of(ring.servers, ring.straggler);
  const std::vector<std::uint64_t> edges = piece_bounds(shares, std::uint64_t{1} << 32);
  ring.bounds.push_back(0);
  for (std::uint32_t root = 0; root < ring.servers; ++root) {
    const double wanted = shares[root] * segments * (ring.servers - 1);
    const std::uint64_t count = static_cast<std::uint64_t>(std::max(1LL, std::llround(wanted)));
    const std::uint64_t size = edges[root + 1] - edges[root];
    for (std::uint64_t i = 0; i < count && size > 0; ++i) {
      const std::uint64_t end = edges[root] + size * (i + 1) / count;
      ring.chunks.push_back({root, static_cast<double>(i) / static_cast<double>(count), end - ring.bounds.back()});
      ring.bounds.push_back(end);
    }
  }
}

struct RingWait {
  double priority = 0;
  RingHop hop;
  bool operator<(const RingWait& other) const {  // the queue's top is the largest
    return priority != other.priority ? priority > other.priority : hop.chunk > other.hop.chunk;
  }
};

// What each edge of the ring is doing, in exact integer time: units of the layout at 1/256 of the healthy rate's pace.
class Play final {
 public:
  explicit Play(Ring& ring) : ring_(ring), edges_(ring.servers) {}

  void run() {
    ring_.order.resize(ring_.servers);
    for (std::uint32_t chunk = 0; chunk < ring_.chunks.size(); ++chunk) arrive({chunk, 0});
    for (std::uint32_t edge = 0; edge < ring_.servers; ++edge) start(edge, 0);
    while (!ends_.empty()) {
      const End end = ends_.top();
      ends_.pop();
      Edge& edge = edges_[end.edge];
      const RingHop done = edge.busy_with;
      edge.busy = false;
      if (done.number + 1 < ring_.hops()) arrive({done.chunk, done.number + 1});
      start(end.edge, end.at);
      start((end.edge + 1) % ring_.servers, end.at);
    }
  }

 private:
  struct Edge {
    std::priority_queue<RingWait> waiting;
    bool busy = false;
    RingHop busy_with;
  };
  struct End {
    std::uint64_t at = 0;
    std::uint32_t edge = 0;
    bool operator<(const End& other) const { return at != other.at ? at > other.at : edge > other.edge; }
  };

  void arrive(RingHop hop) {
    const double hops = static_cast<double>(hop.number) / static_cast<double>(ring_.chunks.size());
    edges_[ring_.sender(hop)].waiting.push({ring_.chunks[hop.chunk].position + hops, hop});
  }

  void start(std::uint32_t number, std::uint64_t now) {
    Edge& edge = edges_[number];
    if (edge.busy || edge.waiting.empty()) return;
    edge.busy = true;
    edge.busy_with = edge.waiting.top().hop;
    edge.waiting.pop();
    ring_.order[number].push_back(edge.busy_with);
    ends_.push({now + ring_.chunks[edge.busy_with.chunk].size * pace(number), number});
  }

  std::uint64_t pace(std::uint32_t sender) const {
    const std::uint32_t slow = ring_.straggler.server;
    const bool slowed = sender == slow || (sender + 1) % ring_.servers == slow;
    return slowed ? static_cast<std::uint64_t>(std::llround(256 * ring_.straggler.slowdown)) : 256;
  }

  Ring& ring_;
  std::vector<Edge> edges_;
  std::priority_queue<End> ends_;
};

std::vector<Lane> lanes_of(const Ring& ring, std::uint32_t me) {
  const std::uint32_t p = ring.servers;
  const std::uint32_t next = (me + 1) % p;
  const std::uint32_t previous = (me + p - 1) % p;
  const std::vector<RingHop>& out = ring.order[me];
  const std::vector<RingHop>& into = ring.order[previous];
  PortLists lists(static_cast<std::uint32_t>(ring.chunks.size()), std::max(out.size(), into.size()));
  // A hop of a chunk is listed behind the hop before it; each lane on its own is in the order of its port.
  std::vector<std::uint32_t> received(ring.chunks.size(), 0);
  std::size_t taken = 0;
  const auto take = [&] {
    const RingHop& hop = into[taken++];
    ++received[hop.chunk];
    lists.receive(previous, hop.chunk, hop.number < p - 1 ? Arrival::kAdded : Arrival::kStored);
  };
  for (const RingHop& hop : out) {
    // The chunk has come by once for each lap that it has begun elsewhere.
    const std::uint32_t needed = (hop.number + p - 1) / p;
    while (received[hop.chunk] < needed) take();
    lists.send(next, hop.chunk);
  }
  while (taken < into.size()) take();
  return lists.take();
}

std::uint32_t choose_segments(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  if (tuning.segments) return std::max(1U, *tuning.segments);
  const std::uint64_t smallest = cluster.min_message * (cluster.servers - 1);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(request.bytes / smallest, 1, 64));
}

}  // namespace

Result<Plan> plan_weighted_ring(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  const Result<Straggler> straggler = find_straggler(cluster, "weighted_ring", 2);
  if (!straggler) return std::unexpected(straggler.error());
  const std::uint32_t p = cluster.servers;
  const std::uint32_t segments = choose_segments(request, cluster, tuning);

  auto ring =
      std::make_shared<Ring>(Ring{.servers = p, .straggler = *straggler, .chunks = {}, .bounds = {}, .order = {}});
  cut_chunks(*ring, segments);
  Play(*ring).run();

  const double unit_s = static_cast<double>(request.bytes) / cluster.healthy_server_rate();
  Plan plan;
  plan.header = header_for(request, cluster, "weighted_ring");
  plan.header.layout.bounds = ring->bounds;
  plan.header.slots = slots_for(unit_s / (segments * (p - 1)), cluster.alpha_s);
  const double hops = 2.0 * segments * (p - 1);  // that each server sends, nearly
  plan.predicted_s = unit_s * one_port_bound(static_cast<int>(p), straggler->slowdown) * (1 + 1.0 / segments) +
                     2 * (p - 1) * cluster.alpha_s + hops * cluster.port_cost_s;
  plan.lanes = [ring](std::uint32_t rank) { return lanes_of(*ring, rank); };
  return plan;
}

}  // namespace r2ccl
