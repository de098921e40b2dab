#include "planner/algorithm/parts/pair_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/pack.h"

namespace r2ccl {
namespace {

constexpr int kFitRounds = 30;
constexpr double kFitClose = 1.001;

double pooled_s(const PairBytes& traffic, const Cluster& cluster) {
  double busiest = 0;
  for (std::uint32_t u = 0; u < cluster.servers; ++u) {
    double out = 0;
    double into = 0;
    for (std::uint32_t v = 0; v < cluster.servers; ++v) {
      out += traffic.at(u, v);
      into += traffic.at(v, u);
    }
    busiest = std::max(busiest, std::max(out, into) / cluster.server_rate(u));
  }
  return busiest;
}

// Shares are the same in both directions, so the larger one counts for both.
double volume_of(const PairBytes& traffic, std::uint32_t u, std::uint32_t v) {
  return std::max(traffic.at(u, v), traffic.at(v, u));
}

// Divides the traffic of every pair over its rails by what these can carry.
Result<PairTraffic> by_rates(const PairBytes& traffic, const Cluster& cluster) {
  PairTraffic rails(cluster.servers, cluster.nics);
  for (std::uint32_t u = 0; u < cluster.servers; ++u) {
    for (std::uint32_t v = u + 1; v < cluster.servers; ++v) {
      const double volume = volume_of(traffic, u, v);
      double sum = 0;
      for (std::uint32_t k = 0; k < cluster.nics; ++k) sum += rails.of(u, v)[k] = rail_rate(cluster, u, v, k);
      if (!(sum > 0) && volume > 0) {
        return fail(Fault::kMisuse,
                    fmt::format("servers {} and {} have no rail in common, and this plan does not relay", u, v));
      }
      for (std::uint32_t k = 0; k < cluster.nics && sum > 0; ++k) rails.of(u, v)[k] *= volume / sum;
    }
  }
  return rails;
}

// Moves traffic from busy NICs to idle ones; every pair keeps its volume. Gives the busiest NIC's time before the move.
double fit_once(const Cluster& cluster, PairTraffic& rails) {
  const std::uint32_t m = cluster.nics;
  std::vector<double> busy(cluster.rate.size(), 0.0);
  for (std::uint32_t u = 0; u < cluster.servers; ++u) {
    for (std::uint32_t v = 0; v < cluster.servers; ++v) {
      for (std::uint32_t k = 0; k < m && v != u; ++k) busy[u * m + k] += rails.of(u, v)[k];
    }
  }
  for (std::size_t i = 0; i < busy.size(); ++i) busy[i] = busy[i] > 0 ? busy[i] / cluster.rate[i] : 0;
  const double busiest = *std::max_element(busy.begin(), busy.end());
  for (std::uint32_t u = 0; u < cluster.servers; ++u) {
    for (std::uint32_t v = u + 1; v < cluster.servers; ++v) {
      double before = 0;
      double after = 0;
      for (std::uint32_t k = 0; k < m; ++k) {
        double& amount = rails.of(u, v)[k];
        before += amount;
        if (amount > 0) after += amount *= busiest / std::sqrt(busy[u * m + k] * busy[v * m + k]);
      }
      for (std::uint32_t k = 0; k < m && after > 0; ++k) rails.of(u, v)[k] *= before / after;
    }
  }
  return busiest;
}

}  // namespace

PairBytes all_pairs(std::uint32_t servers, double bytes) {
  PairBytes traffic(servers);
  for (std::uint32_t u = 0; u < servers; ++u) {
    for (std::uint32_t v = 0; v < servers; ++v) traffic.at(u, v) = u == v ? 0 : bytes;
  }
  return traffic;
}

Result<PairNetwork> network_for(const PairBytes& traffic, const Cluster& cluster) {
  PairNetwork network{.shares = {}, .time_s = pooled_s(traffic, cluster)};
  if (cluster.fabric == Fabric::kRouted || cluster.servers < 2) return network;
  Result<PairTraffic> rails = by_rates(traffic, cluster);
  if (!rails) return std::unexpected(rails.error());
  PairTraffic best = *rails;
  double least = 0;
  for (int round = 0; round < kFitRounds; ++round) {
    const PairTraffic now = *rails;
    const double busiest = fit_once(cluster, *rails);
    if (round == 0 || busiest < least) {
      least = busiest;
      best = now;
    }
    if (least <= kFitClose * network.time_s) break;
  }
  network.shares = round_shares(cluster, best);
  network.time_s = load_of(cluster, network.shares, best);
  return network;
}

std::uint32_t slots_for(double interval_s, double alpha_s) {
  return static_cast<std::uint32_t>(std::clamp(2 + std::ceil(2 * alpha_s / std::max(interval_s, 1e-9)), 2.0, 32.0));
}

}  // namespace r2ccl
