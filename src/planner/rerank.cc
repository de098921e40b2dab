#include "planner/rerank.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

namespace r2ccl {
namespace {

using Order = std::vector<std::uint32_t>;

// Which servers may be neighbours: those whose edge is at least so wide.
class RingNeighbours final {
 public:
  RingNeighbours(const std::vector<double>& capacity, std::uint32_t servers, double least) : servers_(servers) {
    for (const double c : capacity) may_.push_back(c >= least ? 1 : 0);
  }
  std::uint32_t servers() const { return servers_; }
  bool may(std::uint32_t u, std::uint32_t v) const { return may_[std::size_t{u} * servers_ + v] != 0; }

 private:
  std::uint32_t servers_;
  std::vector<char> may_;
};

// Finds a ring exactly, over all paths from server 0 at once: for every set of servers it keeps those at which a path
// over the set can end, 2^q * q bits.
std::optional<Order> exact_ring(const RingNeighbours& near) {
  const std::uint32_t q = near.servers();
  std::vector<std::uint32_t> ends(std::size_t{1} << q, 0);  // [set] = set of possible last servers
  ends[1] = 1;
  for (std::uint32_t set = 1; set < ends.size(); set += 2) {
    for (std::uint32_t last = 0; last < q; ++last) {
      if ((ends[set] >> last & 1) == 0) continue;
      for (std::uint32_t v = 1; v < q; ++v) {
        if ((set >> v & 1) == 0 && near.may(last, v)) ends[set | 1U << v] |= 1U << v;
      }
    }
  }
  Order order;
  auto set = static_cast<std::uint32_t>(ends.size() - 1);
  for (std::uint32_t after = 0; set != 0; order.push_back(after)) {
    std::uint32_t last = 0;
    while (last < q && ((ends[set] >> last & 1) == 0 || !near.may(last, after))) ++last;
    if (last == q) return std::nullopt;
    set &= ~(1U << last);
    after = last;
  }
  std::ranges::reverse(order);
  return order;
}

// Grows a path at its end; when the end has no new neighbour, turns a part of the path around to get another end, the
// one that was an end least often. Bounded, so it may miss a ring in a sparse graph.
class PathSearch final {
 public:
  explicit PathSearch(const RingNeighbours& near)
      : near_(near), on_path_(near.servers(), 0), turned_(near.servers(), 0) {}

  std::optional<Order> ring() {
    push(hardest(near_.servers()));
    for (std::uint32_t turns = 0; turns < 20 * near_.servers();) {
      if (path_.size() == near_.servers() && near_.may(path_.back(), path_.front())) return path_;
      const std::uint32_t next = hardest(path_.back());
      if (next < near_.servers()) {
        push(next);
        continue;
      }
      if (!turn()) return std::nullopt;
      ++turns;
    }
    return std::nullopt;
  }

 private:
  void push(std::uint32_t server) {
    path_.push_back(server);
    on_path_[server] = 1;
  }
  std::uint32_t choices(std::uint32_t server) const {
    std::uint32_t count = 0;
    for (std::uint32_t v = 0; v < near_.servers(); ++v) count += on_path_[v] == 0 && near_.may(server, v) ? 1 : 0;
    return count;
  }
  // The new neighbour of `at` with the fewest choices of its own, or servers() if there is none; of all when `at` is
  // servers().
  std::uint32_t hardest(std::uint32_t at) const {
    std::uint32_t best = near_.servers();
    std::uint32_t fewest = UINT32_MAX;
    for (std::uint32_t v = 0; v < near_.servers(); ++v) {
      if (on_path_[v] != 0 || (at < near_.servers() && !near_.may(at, v))) continue;
      if (const std::uint32_t c = choices(v); c < fewest) {
        best = v;
        fewest = c;
      }
    }
    return best;
  }
  // a … p n … end, with an edge end–p, becomes a … p end … n.
  bool turn() {
    std::size_t best = path_.size();
    for (std::size_t i = 0; i + 2 < path_.size(); ++i) {
      if (!near_.may(path_[i], path_.back())) continue;
      if (best == path_.size() || turned_[path_[i + 1]] < turned_[path_[best + 1]]) best = i;
    }
    if (best == path_.size()) return false;
    ++turned_[path_[best + 1]];
    std::reverse(path_.begin() + static_cast<std::ptrdiff_t>(best) + 1, path_.end());
    return true;
  }

  const RingNeighbours& near_;
  Order path_;
  std::vector<char> on_path_;
  std::vector<std::uint32_t> turned_;
};

std::optional<Order> find_ring(const std::vector<double>& capacity, std::uint32_t q, double least) {
  const RingNeighbours near(capacity, q, least);
  return q <= kExactServers ? exact_ring(near) : PathSearch(near).ring();
}

std::vector<double> capacities(const Cluster& cluster) {
  std::vector<double> all;
  for (std::uint32_t u = 0; u < cluster.servers; ++u) {
    for (std::uint32_t v = 0; v < cluster.servers; ++v) all.push_back(u == v ? 0 : edge_capacity(cluster, u, v));
  }
  return all;
}

// No ring is wider: each server needs two edges.
double widest_possible(const std::vector<double>& capacity, std::uint32_t q) {
  double widest = *std::ranges::max_element(capacity);
  for (std::uint32_t u = 0; u < q; ++u) {
    std::vector<double> row(capacity.begin() + std::ptrdiff_t{u} * q, capacity.begin() + (std::ptrdiff_t{u} + 1) * q);
    std::ranges::nth_element(row, row.begin() + 1, std::greater<>());
    widest = std::min(widest, row[1]);
  }
  return widest;
}

}  // namespace

double edge_capacity(const Cluster& cluster, std::uint32_t u, std::uint32_t v) {
  if (cluster.fabric == Fabric::kRouted) return std::min(cluster.server_rate(u), cluster.server_rate(v));
  double common = 0;
  for (std::uint32_t k = 0; k < cluster.nics; ++k) common += std::min(cluster.nic(u, k), cluster.nic(v, k));
  return common;
}

double ring_capacity(const Cluster& cluster, std::span<const std::uint32_t> order) {
  double least = cluster.server_rate(order.front());
  for (std::size_t i = 0; i < order.size(); ++i) {
    least = std::min(least, edge_capacity(cluster, order[i], order[(i + 1) % order.size()]));
  }
  return least;
}

Result<std::vector<std::uint32_t>> rerank(const Cluster& cluster) {
  const std::uint32_t q = cluster.servers;
  Order best(q);
  std::iota(best.begin(), best.end(), 0U);
  double width = ring_capacity(cluster, best);
  if (cluster.fabric == Fabric::kRails && q > 3) {
    const std::vector<double> capacity = capacities(cluster);
    const double widest = widest_possible(capacity, q);
    std::vector<double> widths;  // that a better ring may have
    std::ranges::copy_if(capacity, std::back_inserter(widths), [&](double c) { return c > width && c <= widest; });
    std::ranges::sort(widths);
    widths.erase(std::ranges::unique(widths).begin(), widths.end());
    // Bisection: found at `low` - 1, not found at `high`. The widest first: it is usually there.
    std::size_t low = 0;
    std::size_t high = widths.size();
    for (std::size_t at = high; low < high; at = (low + high + 1) / 2) {
      if (std::optional<Order> found = find_ring(capacity, q, widths[at - 1]); found) {
        best = std::move(*found);
        low = at;
      } else {
        high = at - 1;
      }
    }
    width = ring_capacity(cluster, best);
  }
  if (width <= 0) {
    return fail(Fault::kMisuse,
                fmt::format("no ring over the {} servers: some neighbours would have no rail in common", q));
  }
  return best;
}

}  // namespace r2ccl
