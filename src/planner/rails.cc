#include "planner/rails.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/assert.h"
#include "planner/ownership.h"
#include "planner/pack.h"

namespace r2ccl {
namespace {

// Proportional fitting stops this close to its target; it takes about ten rounds, and rounds cost O(q^2 m).
constexpr double kFitClose = 1.0005;
constexpr int kFitRounds = 60;

double sum_of(const double* amount, std::uint32_t rails) {
  return std::accumulate(amount, amount + rails, 0.0);
}

bool share_a_rail(const Cluster& cluster, std::uint32_t u, std::uint32_t v) {
  for (std::uint32_t k = 0; k < cluster.nics; ++k) {
    if (rail_rate(cluster, u, v, k) > 0) return true;
  }
  return false;
}

// The parts of a pair, summing to 1 (or all 0): its traffic, or its rails' rates where it has none.
void parts_of(const Cluster& cluster, const PairTraffic& traffic, std::uint32_t u, std::uint32_t v,
              std::vector<double>& parts) {
  const double* amount = traffic.of(u, v);
  const bool used = sum_of(amount, traffic.rails) > 0;
  double sum = 0;
  for (std::uint32_t k = 0; k < traffic.rails; ++k) sum += parts[k] = used ? amount[k] : rail_rate(cluster, u, v, k);
  if (sum > 0) {
    for (double& part : parts) part /= sum;
  }
}

// Load / rate of each NIC.
std::vector<double> occupancy_of(const Cluster& cluster, const PairTraffic& traffic) {
  std::vector<double> load(cluster.rate.size(), 0.0);
  for (std::uint32_t u = 0; u < cluster.servers; ++u) {
    for (std::uint32_t v = u + 1; v < cluster.servers; ++v) {
      const double* amount = traffic.of(u, v);
      for (std::uint32_t k = 0; k < cluster.nics; ++k) {
        load[u * cluster.nics + k] += amount[k];
        load[v * cluster.nics + k] += amount[k];
      }
    }
  }
  for (std::size_t i = 0; i < load.size(); ++i) {
    if (load[i] > 0) load[i] /= cluster.rate[i];
  }
  return load;
}

// Hands a pair's missing units to the rails with most room. `load` is load / rate of NICs so far and includes all parts
// that are already rounded down; at most one unit to a rail, and none to a rail whose part was exact.
void hand_out(const Cluster& cluster, std::uint32_t u, std::uint32_t v, double unit, std::uint32_t missing,
              std::vector<bool>& inexact, std::vector<double>& load, std::uint16_t* share) {
  const std::uint32_t m = cluster.nics;
  for (; missing > 0; --missing) {
    std::uint32_t best = m;
    double best_load = 0;
    for (std::uint32_t k = 0; k < m; ++k) {
      if (!inexact[k]) continue;
      const double after =
          std::max(load[u * m + k] + unit / cluster.nic(u, k), load[v * m + k] + unit / cluster.nic(v, k));
      if (best == m || after < best_load) {
        best = k;
        best_load = after;
      }
    }
    R2CCL_ASSERT(best < m, "more units are missing than rails were rounded");
    inexact[best] = false;
    ++share[best];
    load[u * m + best] += unit / cluster.nic(u, best);
    load[v * m + best] += unit / cluster.nic(v, best);
  }
}

// Who may own data and how much time that takes at least: a server that shares no rail with some other one can not be
// the centre of a star, so it owns nothing.
struct RailOwners {
  std::vector<double> bandwidth;  // 0: may own nothing
  double time = 0;                // for unit data, on pooled NICs
};

Result<RailOwners> owners_of(const Cluster& cluster) {
  const std::uint32_t q = cluster.servers;
  const std::vector<double> usable = usable_rates(cluster);
  RailOwners owners{.bandwidth = std::vector<double>(q, 0.0), .time = 0};
  double least = 0;
  double sum = 0;
  std::uint32_t barred = 0;
  for (std::uint32_t u = 0; u < q; ++u) {
    const double rate = sum_of(usable.data() + std::size_t{u} * cluster.nics, cluster.nics);
    least = u == 0 ? rate : std::min(least, rate);
    bool central = true;
    for (std::uint32_t v = 0; v < q; ++v) central = central && (v == u || share_a_rail(cluster, u, v));
    barred += !central;
    if (central) sum += owners.bandwidth[u] = rate;
  }
  if (barred == q)
    return fail(Fault::kMisuse, "no server shares a rail with every other server, so stars can not join them");
  owners.time = std::max(1 / least, (2.0 * (q - 1) - barred) / sum);
  return owners;
}

// The traffic of stars before fitting: each pair in proportion to what its rails can carry.
PairTraffic stars(const Cluster& cluster, const std::vector<double>& rho) {
  PairTraffic traffic(cluster.servers, cluster.nics);
  for (std::uint32_t u = 0; u < cluster.servers; ++u) {
    for (std::uint32_t v = u + 1; v < cluster.servers; ++v) {
      double* amount = traffic.of(u, v);
      double sum = 0;
      for (std::uint32_t k = 0; k < cluster.nics; ++k) sum += amount[k] = rail_rate(cluster, u, v, k);
      if (!(sum > 0)) continue;
      for (std::uint32_t k = 0; k < cluster.nics; ++k) amount[k] *= (rho[u] + rho[v]) / sum;
    }
  }
  return traffic;
}

// Moves traffic from busy NICs to idle ones; every pair keeps its volume.
void fit_once(const Cluster& cluster, const std::vector<double>& occupancy, double busiest, PairTraffic& traffic) {
  std::vector<double> factor(occupancy.size(), 1.0);
  for (std::size_t i = 0; i < factor.size(); ++i) {
    if (occupancy[i] > 0) factor[i] = std::sqrt(busiest / occupancy[i]);
  }
  for (std::uint32_t u = 0; u < cluster.servers; ++u) {
    for (std::uint32_t v = u + 1; v < cluster.servers; ++v) {
      double* amount = traffic.of(u, v);
      const double volume = sum_of(amount, cluster.nics);
      if (!(volume > 0)) continue;
      double sum = 0;
      for (std::uint32_t k = 0; k < cluster.nics; ++k) {
        sum += amount[k] *= factor[u * cluster.nics + k] * factor[v * cluster.nics + k];
      }
      for (std::uint32_t k = 0; k < cluster.nics; ++k) amount[k] *= volume / sum;
    }
  }
}

}  // namespace

std::vector<double> usable_rates(const Cluster& cluster) {
  std::vector<double> usable = cluster.rate;
  for (std::uint32_t k = 0; k < cluster.nics; ++k) {
    for (std::uint32_t u = 0; u < cluster.servers; ++u) {
      double others = 0;
      for (std::uint32_t v = 0; v < cluster.servers; ++v) others += v == u ? 0.0 : cluster.nic(v, k);
      double& rate = usable[u * cluster.nics + k];
      rate = std::min(rate, others);
    }
  }
  return usable;
}

RailShares round_shares(const Cluster& cluster, const PairTraffic& traffic) {
  const std::uint32_t q = cluster.servers;
  const std::uint32_t m = cluster.nics;
  RailShares shares{.servers = q, .rails = m, .share = std::vector<std::uint16_t>(std::size_t{q} * q * m, 0)};
  const auto of = [&](std::uint32_t u, std::uint32_t v) { return shares.share.data() + (std::size_t{u} * q + v) * m; };

  // A part this close below a whole unit is that unit, computed with rounding.
  constexpr double kWhole = 1e-6;
  std::vector<double> parts(m);
  PairTraffic down(q, m);
  for (std::uint32_t u = 0; u < q; ++u) {
    for (std::uint32_t v = u + 1; v < q; ++v) {
      parts_of(cluster, traffic, u, v, parts);
      const double volume = sum_of(traffic.of(u, v), m);
      for (std::uint32_t k = 0; k < m; ++k) {
        of(u, v)[k] = static_cast<std::uint16_t>(std::floor(parts[k] * kShareUnit + kWhole));
        down.of(u, v)[k] = volume * of(u, v)[k] / kShareUnit;
      }
    }
  }

  std::vector<double> load = occupancy_of(cluster, down);
  std::vector<bool> inexact(m);
  for (std::uint32_t u = 0; u < q; ++u) {
    for (std::uint32_t v = u + 1; v < q; ++v) {
      parts_of(cluster, traffic, u, v, parts);
      std::uint32_t given = 0;
      for (std::uint32_t k = 0; k < m; ++k) {
        given += of(u, v)[k];
        inexact[k] = parts[k] * kShareUnit > of(u, v)[k] + kWhole;
      }
      if (share_a_rail(cluster, u, v)) {
        hand_out(cluster, u, v, sum_of(traffic.of(u, v), m) / kShareUnit, kShareUnit - given, inexact, load, of(u, v));
      }
      std::copy_n(of(u, v), m, of(v, u));
    }
  }
  return shares;
}

double load_of(const Cluster& cluster, const RailShares& shares, const PairTraffic& traffic) {
  PairTraffic rounded(cluster.servers, cluster.nics);
  for (std::uint32_t u = 0; u < cluster.servers; ++u) {
    for (std::uint32_t v = u + 1; v < cluster.servers; ++v) {
      const double volume = sum_of(traffic.of(u, v), cluster.nics);
      for (std::uint32_t k = 0; k < cluster.nics; ++k) rounded.of(u, v)[k] = volume * shares.of(u, v)[k] / kShareUnit;
    }
  }
  const std::vector<double> load = occupancy_of(cluster, rounded);
  return *std::max_element(load.begin(), load.end());
}

Result<RailPlan> fit_rails(const Cluster& cluster) {
  if (cluster.servers < 2)
    return RailPlan{.rho = {1.0}, .shares = round_shares(cluster, PairTraffic(1, cluster.nics)), .load = 0};
  const Result<RailOwners> owners = owners_of(cluster);
  if (!owners) return std::unexpected(owners.error());
  RailPlan plan;
  plan.rho = owned_shares(owners->bandwidth, owners->time);

  PairTraffic traffic = stars(cluster, plan.rho);
  PairTraffic best = traffic;
  double least = 0;
  for (int round = 0; round < kFitRounds; ++round) {
    const std::vector<double> occupancy = occupancy_of(cluster, traffic);
    const double busiest = *std::max_element(occupancy.begin(), occupancy.end());
    if (round == 0 || busiest < least) {
      least = busiest;
      best = traffic;
    }
    if (least <= kFitClose * owners->time) break;
    fit_once(cluster, occupancy, busiest, traffic);
  }
  plan.shares = round_shares(cluster, best);
  plan.load = load_of(cluster, plan.shares, best);
  return plan;
}

}  // namespace r2ccl
