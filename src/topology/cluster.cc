#include "topology/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace r2ccl {
namespace {

Status in_range(const Cluster& cluster, std::uint32_t server, std::uint32_t nic) {
  if (server >= cluster.servers) {
    return fail(Fault::kMisuse, fmt::format("there is no server {}; servers are 0 to {}", server, cluster.servers - 1));
  }
  if (nic >= cluster.nics) {
    return fail(Fault::kMisuse,
                fmt::format("there is no NIC {} on server {}; NICs are 0 to {}", nic, server, cluster.nics - 1));
  }
  return {};
}

bool positive(double rate) {
  return std::isfinite(rate) && rate > 0;
}

}  // namespace

double Cluster::server_rate(std::uint32_t server) const {
  const auto first = rate.begin() + static_cast<std::ptrdiff_t>(server) * nics;
  return std::accumulate(first, first + nics, 0.0);
}

bool Cluster::healthy() const {
  return std::all_of(rate.begin(), rate.end(), [this](double r) { return r >= nic_rate; });
}

Cluster Cluster::uniform(std::uint32_t servers, std::uint32_t gpus, std::uint32_t nics, double nic_rate) {
  Cluster cluster{.servers = servers, .gpus = gpus, .nics = nics, .nic_rate = nic_rate, .rate = {}};
  cluster.rate.assign(std::size_t{servers} * nics, nic_rate);
  return cluster;
}

Status lose_nic(Cluster& cluster, std::uint32_t server, std::uint32_t nic) {
  if (Status ok = in_range(cluster, server, nic); !ok) return ok;
  const double left = cluster.server_rate(server) - cluster.nic(server, nic);
  if (left <= 0) {
    return fail(Fault::kMisuse,
                fmt::format("server {} would have no NIC left without NIC {}; each server needs one", server, nic));
  }
  cluster.rate[server * cluster.nics + nic] = 0;
  return {};
}

Status slow_nic(Cluster& cluster, std::uint32_t server, std::uint32_t nic, double fraction) {
  if (Status ok = in_range(cluster, server, nic); !ok) return ok;
  if (!(fraction > 0 && fraction <= 1)) {
    return fail(Fault::kMisuse,
                fmt::format("NIC {} of server {} can not run at {} of its rate; say more than 0 and at most 1", nic,
                            server, fraction));
  }
  cluster.rate[server * cluster.nics + nic] = cluster.nic_rate * fraction;
  return {};
}

Status validate(const Cluster& cluster) {
  if (cluster.servers == 0 || cluster.gpus == 0 || cluster.nics == 0) {
    return fail(Fault::kMisuse, "a cluster needs at least one server, one GPU and one NIC");
  }
  if (cluster.rate.size() != std::size_t{cluster.servers} * cluster.nics) {
    return fail(Fault::kMisuse, fmt::format("{} rates given for {} servers with {} NICs", cluster.rate.size(),
                                            cluster.servers, cluster.nics));
  }
  if (!(positive(cluster.nic_rate) && positive(cluster.intra_rate))) {
    return fail(Fault::kMisuse, fmt::format("NICs at {} and a fabric at {} bytes/s: both need a positive rate",
                                            cluster.nic_rate, cluster.intra_rate));
  }
  if (!(cluster.alpha_s >= 0 && cluster.port_cost_s >= 0 && cluster.intra_alpha_s >= 0)) {
    return fail(Fault::kMisuse, fmt::format("latencies of {}, {} and {} s: none may be negative", cluster.alpha_s,
                                            cluster.port_cost_s, cluster.intra_alpha_s));
  }
  for (std::size_t i = 0; i < cluster.rate.size(); ++i) {
    if (cluster.rate[i] == 0 || positive(cluster.rate[i])) continue;
    return fail(Fault::kMisuse, fmt::format("NIC {} of server {} has a rate of {} bytes/s; say 0 or more",
                                            i % cluster.nics, i / cluster.nics, cluster.rate[i]));
  }
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    if (!(cluster.server_rate(server) > 0)) {
      return fail(Fault::kMisuse, fmt::format("server {} has no working NIC; each server needs one", server));
    }
  }
  return {};
}

}  // namespace r2ccl
