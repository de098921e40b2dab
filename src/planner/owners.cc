#include "planner/owners.h"

#include <algorithm>
#include <utility>

#include "planner/ownership.h"
#include "planner/rails.h"

namespace r2ccl {
namespace {

constexpr int kTurns = 64;

bool lost(const Cluster& cluster, std::uint32_t server, std::uint32_t gpu) {
  return cluster.nic(server, cluster.home_nic(gpu)) <= 0;
}

std::uint32_t lost_of(const Cluster& cluster, std::uint32_t server) {
  std::uint32_t count = 0;
  for (std::uint32_t gpu = 0; gpu < cluster.gpus; ++gpu) count += lost(cluster, server, gpu);
  return count;
}

// Of all GPUs' shards. Where NICs are lost at places i and j, shards i and j are smaller, so that a GPU without NIC is
// as busy as those that carry its traffic: 1 + (g - 1) s_i = 1 + (g - 2) s + l s_i / (g - l), with l such GPUs on the
// server that has most.
std::vector<double> shard_sizes(const Cluster& cluster) {
  const double g = cluster.gpus;
  std::vector<bool> hit(cluster.gpus, false);
  double most = 0;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    for (std::uint32_t gpu = 0; gpu < cluster.gpus; ++gpu) hit[gpu] = hit[gpu] || lost(cluster, server, gpu);
    const double here = lost_of(cluster, server);
    if (here < g) most = std::max(most, here);
  }
  const auto places = static_cast<double>(std::count(hit.begin(), hit.end(), true));
  std::vector<double> equal(cluster.gpus, 1 / g);
  if (places == 0 || places == g) return equal;
  const double smaller = (g - 2) / (g - places) / (g - 1 - most / (g - most) + (g - 2) * places / (g - places));
  // With two GPUs, or so many lost NICs that the GPUs that carry their traffic are the busier ones, sizes are equal.
  if (!(smaller > 0 && smaller < 1 / g)) return equal;
  const double rest = (1 - places * smaller) / (g - places);
  std::vector<double> size;
  for (const bool small : hit) size.push_back(small ? smaller : rest);
  return size;
}

// Makes `count` numbers sum to `sum` unless all are zero.
void scale(double* first, std::uint32_t count, std::uint32_t stride, double sum) {
  double now = 0;
  for (std::uint32_t i = 0; i < count; ++i) now += first[i * stride];
  for (std::uint32_t i = 0; i < count && now > 0; ++i) first[i * stride] *= sum / now;
}

}  // namespace

Result<Owners> owners_of(const Cluster& cluster) {
  std::vector<double> bandwidth;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) bandwidth.push_back(cluster.server_rate(server));
  Ownership pooled = ownership(bandwidth);
  if (cluster.fabric == Fabric::kRouted) return Owners{std::move(pooled.rho), {}, pooled.bound, pooled.kappa};
  Result<RailPlan> rails = fit_rails(cluster);
  if (!rails) return std::unexpected(rails.error());
  return Owners{std::move(rails->rho), std::move(rails->shares), rails->load, pooled.kappa};
}

std::vector<double> shard_owners(const Cluster& cluster, const std::vector<double>& rho) {
  const std::uint32_t g = cluster.gpus;
  const std::uint32_t q = cluster.servers;
  const std::vector<double> size = shard_sizes(cluster);
  std::vector<double> owned(std::size_t{g} * q);
  for (std::uint32_t server = 0; server < q; ++server) {
    const bool must_own = q < 3 || lost_of(cluster, server) == g;
    for (std::uint32_t gpu = 0; gpu < g; ++gpu)
      owned[gpu * q + server] = lost(cluster, server, gpu) && !must_own ? 0 : size[gpu] * rho[server];
  }
  // Scales rows and columns in turn, a fixed number of times, so that all ranks get the same.
  for (int turn = 0; turn < kTurns; ++turn) {
    for (std::uint32_t gpu = 0; gpu < g; ++gpu) scale(owned.data() + gpu * q, q, 1, size[gpu]);
    for (std::uint32_t server = 0; server < q; ++server) scale(owned.data() + server, g, q, rho[server]);
  }
  return owned;
}

}  // namespace r2ccl
