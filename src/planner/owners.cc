#include "planner/owners.h"

#include <algorithm>
#include <utility>

#include "planner/ownership.h"
#include "planner/rails.h"

namespace r2ccl {

Result<Owners> owners_of(const Cluster& cluster) {
  std::vector<double> bandwidth;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) bandwidth.push_back(cluster.server_rate(server));
  Ownership pooled = ownership(bandwidth);
  if (cluster.fabric == Fabric::kRouted) return Owners{std::move(pooled.rho), {}, pooled.bound, pooled.kappa};
  Result<RailPlan> rails = fit_rails(cluster);
  if (!rails) return std::unexpected(rails.error());
  return Owners{std::move(rails->rho), std::move(rails->shares), rails->load, pooled.kappa};
}

std::vector<ShardOwners> shard_owners(const Cluster& cluster, const std::vector<double>& rho) {
  const std::uint32_t g = cluster.gpus;
  const auto lost = [&](std::uint32_t server, std::uint32_t gpu) {
    return cluster.nic(server, cluster.home_nic(gpu)) <= 0;
  };
  std::vector<double> working(cluster.servers, 0);
  double healthy = 0;  // owned by servers that lost no GPU's NIC
  double healthy_most = 0;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    for (std::uint32_t gpu = 0; gpu < g; ++gpu) working[server] += !lost(server, gpu);
    if (working[server] < g) continue;
    healthy += rho[server];
    healthy_most = std::max(healthy_most, rho[server]);
  }
  std::vector<ShardOwners> shards(g, {1.0 / g, rho});
  if (healthy <= 0 || cluster.servers < 3) return shards;
  double sizes = 0;
  for (std::uint32_t gpu = 0; gpu < g; ++gpu) {
    double left = 1;
    for (std::uint32_t server = 0; server < cluster.servers; ++server) {
      if (working[server] == g) continue;
      double& mine = shards[gpu].rho[server];
      mine = working[server] == 0 ? mine : lost(server, gpu) ? 0 : mine * g / working[server];
      left -= mine;
    }
    if (left <= 0) return std::vector<ShardOwners>(g, {1.0 / g, rho});  // too few healthy servers to take over
    for (std::uint32_t server = 0; server < cluster.servers; ++server) {
      if (working[server] == g) shards[gpu].rho[server] *= left / healthy;
    }
    shards[gpu].size = 1 / (1 + (cluster.servers - 2) * healthy_most * left / healthy);
    sizes += shards[gpu].size;
  }
  for (ShardOwners& shard : shards) shard.size /= sizes;
  return shards;
}

}  // namespace r2ccl
