// What must cross ports, and so how long it takes at least. "Volume" counts bytes received (or sent) at a port.
// In-network reduction and multicast do not exist; the sum of two elements is as long as one, and nothing else
// compresses data.
//
// all_reduce   Per element: until some rank holds the sum, every other one has sent at least once (p - 1 sends); after
//              that, every other one still receives (p - 1 receptions). So 2 (p - 1) n bytes pass between ranks, and by
//              the same count over servers 2 (q - 1) n pass between servers; each server also sends n and receives n.
//              Network: max(n / B_min, 2 (q - 1) n / sum B). Ports: every transfer enters a server by NIC or a GPU
//              by fabric, so 2 (p - 1) n <= T (sum B + p I).
// all_gather   Server i receives the q - 1 other servers' blocks: (q - 1) / q n / B_i (sending its own n / q is less;
//              the sum over servers, (q - 1) n / sum B, is never more than the slowest server's term). Ports: its g
//              GPUs receive (p - 1) / p n each, by NIC or fabric: g (p - 1) / p n <= T (B_i + g I).
// reduce_scatter  The same in reversed time: what was received is sent.
// broadcast    Each server but the root's receives n and the root's sends n: n / B_min. (The sum (q - 1) n <= T sum B
//              is weaker: sum B >= q B_min.) Ports: g n <= T (B_i + g I), and any GPU but the
//              root receives n <= T (B_i + I), also on the root's server.
// reduce       The same in reversed time.
// gather       The root's server r receives (q - 1) / q n, every other one sends n / q. Ports: the root itself receives
//              (p - 1) / p n <= T (B_r + I).
// scatter      The same in reversed time.
// all_to_all   Every rank has a block of n / p for every rank: server i sends and receives g (q - 1) / q n. Ports: its
//              GPUs receive g (p - 1) / p n <= T (B_i + g I).
#include "planner/bounds.h"

#include <vector>

#include "base/assert.h"
#include "planner/rails.h"

namespace r2ccl {
namespace {

struct ClusterShape {
  double n, q, g, p;
  std::vector<double> bandwidth;  // of servers; empty with one server, whose NICs carry nothing
  std::uint32_t root_server;
  double fabric;
};

double least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum;
}

// Bytes that must cross the NICs of one server one way.
double crossing(Collective collective, const ClusterShape& s, bool root) {
  switch (collective) {
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return (s.q - 1) / s.q * s.n;
    case Collective::kGather:
    case Collective::kScatter:
      return (root ? s.q - 1 : 1) / s.q * s.n;
    case Collective::kAllToAll:
      return s.g * (s.q - 1) / s.q * s.n;
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
      break;
  }
  return s.n;
}

double network_of(Collective collective, const ClusterShape& s) {
  if (s.bandwidth.empty()) return 0;
  if (collective == Collective::kAllReduce) return allreduce_bound(std::span<const double>(s.bandwidth)) * s.n;
  double slowest = 0;
  for (std::size_t i = 0; i < s.bandwidth.size(); ++i) {
    slowest = std::max(slowest, crossing(collective, s, i == s.root_server) / s.bandwidth[i]);
  }
  return slowest;
}

double ports_of(Collective collective, const ClusterShape& s) {
  if (s.g < 2) return 0;
  const double sum = sum_of(s.bandwidth);
  const double weakest = s.bandwidth.empty() ? 0 : least(s.bandwidth);
  const double at_root = s.bandwidth.empty() ? 0 : s.bandwidth[s.root_server];
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (s.p - 1) * s.n / (sum + s.p * s.fabric);
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return s.g * (s.p - 1) / s.p * s.n / (weakest + s.g * s.fabric);
    case Collective::kGather:
    case Collective::kScatter:
      return (s.p - 1) / s.p * s.n / (at_root + s.fabric);
    case Collective::kBroadcast:
    case Collective::kReduce:
      break;
  }
  double slowest = s.n / (at_root + s.fabric);
  for (std::size_t i = 0; i < s.bandwidth.size(); ++i) {
    if (i != s.root_server) slowest = std::max(slowest, s.g * s.n / (s.bandwidth[i] + s.g * s.fabric));
  }
  return slowest;
}

// GPUs whose own NIC works, on the server that has fewest; at least 1, for a server's GPUs may all be far from what is
// left.
double gpus_with_nic(const Cluster& cluster) {
  std::uint32_t fewest = cluster.gpus;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    std::uint32_t with = 0;
    for (std::uint32_t gpu = 0; gpu < cluster.gpus; ++gpu) with += cluster.nic(server, cluster.home_nic(gpu)) > 0;
    fewest = std::min(fewest, with);
  }
  return std::max(fewest, 1U);
}

// Fabric volume of one GPU when the NICs carry the least. A GPU without its own NIC hands what its NIC would have
// carried to the others: for all_reduce its reduced shard of n / g, spread over the a GPUs that have one.
double intra_volume(Collective collective, const ClusterShape& s, double a) {
  switch (collective) {
    case Collective::kAllReduce:
      return (2 * (s.g - 1) / s.g + (s.q > 1 ? (s.g - a) / (s.g * a) : 0)) * s.n;
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllToAll:
      return (s.g - 1) / s.p * s.n;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return (s.g - 1) / s.g * s.n;
    case Collective::kBroadcast:
    case Collective::kReduce:
      break;
  }
  return s.n;  // the other GPUs of the root's server get it all over the fabric
}

// Bytes over one member's port on a ring of `members` (broadcast and reduce: a chain), for blocks of n / members.
double ring_volume(Collective collective, double members, double n) {
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (members - 1) / members * n;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
      return (members - 1) / members * n;
    default:
      return members > 1 ? n : 0;
  }
}

bool is_ring(Collective collective) {
  return collective < Collective::kGather;
}

}  // namespace

Bounds bounds_of(Collective collective, std::uint64_t bytes, const Cluster& cluster, std::uint32_t root) {
  R2CCL_ASSERT(root < cluster.ranks(), "no such root");
  ClusterShape shape{.n = static_cast<double>(bytes),
                     .q = static_cast<double>(cluster.servers),
                     .g = static_cast<double>(cluster.gpus),
                     .p = static_cast<double>(cluster.ranks()),
                     .bandwidth = {},
                     .root_server = root / cluster.gpus,
                     .fabric = cluster.intra_rate};
  std::vector<std::uint32_t> degraded;
  for (std::uint32_t i = 0; cluster.servers > 1 && i < cluster.servers; ++i) {
    shape.bandwidth.push_back(cluster.server_rate(i));
    if (shape.bandwidth[i] < cluster.healthy_server_rate()) degraded.push_back(i);
  }
  const double whole = cluster.healthy_server_rate();

  Bounds bounds;
  bounds.network_s = network_of(collective, shape);
  if (collective == Collective::kAllReduce && cluster.fabric == Fabric::kRails && cluster.servers <= kPackServers) {
    if (const Result<TreePacking> packing = pack_trees(cluster)) {
      bounds.network_s = std::max(bounds.network_s, packing->bound * shape.n);
    }
  }
  bounds.ports_s = ports_of(collective, shape);
  bounds.bound_s = std::max(bounds.network_s, bounds.ports_s);
  if (cluster.gpus > 1) bounds.intra_s = intra_volume(collective, shape, gpus_with_nic(cluster)) / cluster.intra_rate;
  if (collective == Collective::kAllReduce && degraded.size() == 1) {
    const double slowdown = whole / shape.bandwidth[degraded[0]];
    bounds.one_port_s = one_port_bound(static_cast<int>(cluster.servers), slowdown) * shape.n / whole;
  }
  if (cluster.servers == 1) {
    bounds.healthy_ring_s = bounds.healthy_flat_s = bounds.intra_s;
  } else if (is_ring(collective)) {
    bounds.healthy_ring_s = ring_volume(collective, shape.q, shape.n) / whole;
    bounds.healthy_flat_s = ring_volume(collective, shape.p, shape.n) / whole;
  } else {
    bounds.healthy_ring_s = bounds.healthy_flat_s = crossing(collective, shape, true) / whole;
  }
  return bounds;
}

}  // namespace r2ccl
