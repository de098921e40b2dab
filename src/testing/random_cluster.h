#pragma once
// Random clusters and requests for tests: any NICs lost or slowed, every server keeps one. Drawn from one seed, so a
// case is named by its number.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/sanitized.h"
#include "planner/plan.h"

namespace r2ccl::example {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}

  // Not a distribution of the standard library: those differ between implementations.
  std::uint32_t below(std::uint64_t end) { return static_cast<std::uint32_t>(engine_() % end); }
  std::uint32_t between(std::uint32_t low, std::uint32_t high) { return low + below(high - low + 1); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  std::uint64_t any() { return engine_(); }

 private:
  std::mt19937_64 engine_;
};

// Nothing, one NIC, a few, or most of them.
inline void damage(Cluster& cluster, Draw& draw) {
  const std::uint32_t all = cluster.servers * cluster.nics;
  std::uint32_t faults = 0;
  switch (draw.below(5)) {
    case 0:
      break;
    case 1:
      faults = 1;
      break;
    case 2:
    case 3:
      faults = draw.between(1, cluster.servers);
      break;
    default:
      faults = draw.between(1, all);
  }
  for (std::uint32_t i = 0; i < faults; ++i) {
    const std::uint32_t server = draw.below(cluster.servers);
    const std::uint32_t nic = draw.below(cluster.nics);
    if (draw.one_in(3)) {
      const double left = draw.one_in(2) ? draw.one_of({0.5, 0.25, 1.0 / 3}) : (1 + draw.below(1000)) / 1000.0;
      if (cluster.nic(server, nic) > 0) (void)slow_nic(cluster, server, nic, left);
    } else {
      (void)lose_nic(cluster, server, nic);  // refused for the last one of a server
    }
  }
}

inline Cluster random_cluster(Draw& draw, std::uint32_t servers) {
  const std::uint32_t gpus = draw.one_in(2) ? 1 : draw.between(1, 8);
  Cluster cluster = Cluster::uniform(servers, gpus, draw.between(1, 8), 50e9);
  cluster.fabric = draw.one_of({Fabric::kRouted, Fabric::kRails});
  damage(cluster, draw);
  return cluster;
}

// 0, a byte, … 4 GiB; every magnitude alike.
inline std::uint64_t random_bytes(Draw& draw) {
  if (draw.one_in(12)) return draw.one_of<std::uint64_t>({0, 1, std::uint64_t{4} << 30});
  const std::uint32_t magnitude = draw.below(33);
  return draw.any() % ((std::uint64_t{1} << magnitude) + 1);
}

inline Request random_request(Draw& draw, Collective collective, const Cluster& cluster) {
  return {.collective = collective, .bytes = random_bytes(draw), .root = draw.below(cluster.ranks())};
}

inline bool share_a_rail(const Cluster& cluster, std::uint32_t a, std::uint32_t b) {
  if (cluster.fabric == Fabric::kRouted) return true;
  for (std::uint32_t nic = 0; nic < cluster.nics; ++nic) {
    if (cluster.nic(a, nic) > 0 && cluster.nic(b, nic) > 0) return true;
  }
  return false;
}

inline bool every_pair_shares_a_rail(const Cluster& cluster) {
  for (std::uint32_t a = 0; a < cluster.servers; ++a) {
    for (std::uint32_t b = 0; b < a; ++b) {
      if (!share_a_rail(cluster, a, b)) return false;
    }
  }
  return true;
}

// Every server reaches every other, perhaps by way of others.
inline bool joined(const Cluster& cluster) {
  std::vector<std::uint32_t> reached{0};
  std::vector<bool> seen(cluster.servers, false);
  seen[0] = true;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (std::uint32_t next = 0; next < cluster.servers; ++next) {
      if (seen[next] || !share_a_rail(cluster, reached[i], next)) continue;
      seen[next] = true;
      reached.push_back(next);
    }
  }
  return reached.size() == cluster.servers;
}

inline std::string describe(const Request& request, const Cluster& cluster) {
  std::vector<double> left;
  for (const double rate : cluster.rate) left.push_back(rate / cluster.nic_rate);
  return fmt::format("{}, {} bytes, root {}, {} x {} GPUs x {} NICs, {}, rates {}", to_text(request.collective),
                     request.bytes, request.root, cluster.servers, cluster.gpus, cluster.nics,
                     cluster.fabric == Fabric::kRails ? "rails" : "routed", fmt::join(left, " "));
}

}  // namespace r2ccl::example
