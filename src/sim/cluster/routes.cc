#include "sim/cluster/routes.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace r2ccl::sim {

Routes::Routes(const Cluster& cluster, const PlanHeader& header) : cluster_(cluster), header_(header) {
  for (std::uint32_t nic = 0; nic < cluster.nics; ++nic) {
    std::uint32_t owner = 0;
    for (std::uint32_t gpu = cluster.gpus; gpu-- > 0;) {
      if (cluster.home_nic(gpu) <= nic) {
        owner = gpu;
        break;
      }
    }
    while (owner > 0 && cluster.home_nic(owner - 1) == cluster.home_nic(owner)) --owner;
    owner_.push_back(owner);
  }
  for (std::uint32_t gpu = 0; gpu < cluster.gpus; ++gpu) {
    for (std::uint32_t nic = 0; nic < cluster.nics; ++nic)
      owns_.push_back(owner_[nic] == gpu || cluster.home_nic(gpu) == nic);
  }
  if (!header.shares.empty() || cluster.fabric == Fabric::kRails)
    by_pair_ = Splitter(cluster.nics, kSmallestPart, pair_fractions());
}

std::vector<double> Routes::pair_fractions() const {
  const std::uint32_t q = cluster_.servers;
  const std::uint32_t m = cluster_.nics;
  std::vector<double> fractions(std::size_t{q} * q * m, 0);
  for (std::uint32_t u = 0; u < q; ++u) {
    for (std::uint32_t v = 0; v < q; ++v) {
      double* const f = fractions.data() + (std::size_t{u} * q + v) * m;
      const auto fill = [&](bool planned) {
        double sum = 0;
        for (std::uint32_t k = 0; k < m; ++k) {
          const double slower = std::min(cluster_.nic(u, k), cluster_.nic(v, k));
          f[k] = !planned ? slower : slower > 0 ? header_.shares.of(u, v)[k] : 0;
          sum += f[k];
        }
        return sum;
      };
      double sum = header_.shares.empty() ? 0 : fill(true);
      if (sum <= 0) sum = fill(false);  // nothing planned, or all of it on lost NICs
      for (std::uint32_t k = 0; k < m && sum > 0; ++k) f[k] /= sum;
    }
  }
  return fractions;
}

Splitter Routes::by_gpu(const std::vector<double>& bytes_of_rank) const {
  std::vector<double> fractions(bytes_of_rank.size() * cluster_.nics, 0);
  for (std::uint32_t server = 0; server < cluster_.servers; ++server) {
    const std::size_t rank = std::size_t{server} * cluster_.gpus;
    divide(server, bytes_of_rank.data() + rank, fractions.data() + rank * cluster_.nics);
  }
  return Splitter(cluster_.nics, kLargestUnit, std::move(fractions));
}

void Routes::divide(std::uint32_t server, const double* bytes_of_gpu, double* fractions) const {
  const std::uint32_t m = cluster_.nics;
  const double total = std::accumulate(bytes_of_gpu, bytes_of_gpu + cluster_.gpus, 0.0);
  const double per_rate = total / cluster_.server_rate(server);
  std::vector<double> spare(m);  // of what a NIC is to carry
  for (std::uint32_t k = 0; k < m; ++k) spare[k] = cluster_.nic(server, k) * per_rate;
  // GPUs that share a NIC as their own divide it in the order of their numbers; what one is short of, others' NICs
  // carry.
  std::vector<double> missing(bytes_of_gpu, bytes_of_gpu + cluster_.gpus);
  for (std::uint32_t gpu = 0; gpu < cluster_.gpus; ++gpu) {
    double own = 0;
    for (std::uint32_t k = 0; k < m; ++k) own += owns(gpu, k) ? spare[k] : 0;
    const double part = own > 0 ? std::min(1.0, bytes_of_gpu[gpu] / own) : 0;
    for (std::uint32_t k = 0; k < m; ++k) {
      if (!owns(gpu, k)) continue;
      fractions[gpu * m + k] = spare[k] * part;
      missing[gpu] -= spare[k] * part;
      spare[k] -= spare[k] * part;
    }
  }
  const double left = std::accumulate(spare.begin(), spare.end(), 0.0);
  for (std::uint32_t gpu = 0; gpu < cluster_.gpus; ++gpu) {
    const bool short_of = missing[gpu] > 1e-9 * total;  // not rounding
    double sum = 0;
    for (std::uint32_t k = 0; k < m; ++k) {
      double& f = fractions[gpu * m + k];
      if (short_of && left > 0) f += missing[gpu] * spare[k] / left;
      sum += f;
    }
    for (std::uint32_t k = 0; k < m && sum > 0; ++k) fractions[gpu * m + k] /= sum;
  }
}

std::uint32_t Routes::mapped(std::uint32_t server, std::uint32_t rail) const {
  const std::size_t at = std::size_t{server} * cluster_.nics + rail;
  return at < header_.nic_of_rail.size() ? header_.nic_of_rail[at] : rail;
}

std::optional<NicPair> Routes::pinned(std::uint32_t u, std::uint32_t v, std::uint32_t rail) const {
  if (rail >= cluster_.nics) return std::nullopt;
  const NicPair pair{mapped(u, rail), mapped(v, rail)};
  if (pair.out >= cluster_.nics || pair.in >= cluster_.nics) return std::nullopt;
  if (cluster_.fabric == Fabric::kRouted || pair.out == pair.in) {
    return alive(u, pair.out) && alive(v, pair.in) ? std::optional(pair) : std::nullopt;
  }
  for (const std::uint32_t nic : {std::min(pair.out, pair.in), std::max(pair.out, pair.in)}) {
    if (alive(u, nic) && alive(v, nic)) return NicPair{nic, nic};
  }
  return std::nullopt;
}

}  // namespace r2ccl::sim
