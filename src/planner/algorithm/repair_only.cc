// What hot repair leaves behind when nobody plans anew: the healthy rings, where the ring of a lost NIC goes over the
// next one that is alive. That NIC carries two shares (more only when more than half are lost), so the whole takes
// twice as long.

#include <fmt/format.h>

#include <algorithm>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/rings/ring.h"

namespace r2ccl {
namespace {

// The NIC that serves each rail at each server: its own, or the next one that carries the fewest. On isolated rails
// both ends of a lane must move together, so a rail that is lost anywhere moves everywhere.
Result<std::vector<std::uint8_t>> backups(const Cluster& cluster) {
  const std::uint32_t m = cluster.nics;
  const auto usable = [&](std::uint32_t server, std::uint32_t nic) {
    if (cluster.fabric == Fabric::kRouted) return cluster.nic(server, nic) > 0;
    for (std::uint32_t u = 0; u < cluster.servers; ++u) {
      if (cluster.nic(u, nic) <= 0) return false;
    }
    return true;
  };
  std::vector<std::uint8_t> nic_of_rail;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    std::vector<std::uint32_t> rings(m, 0);  // on each NIC
    for (std::uint32_t nic = 0; nic < m; ++nic) rings[nic] = usable(server, nic) ? 1 : UINT32_MAX;
    for (std::uint32_t rail = 0; rail < m; ++rail) {
      std::uint32_t backup = rail;
      for (std::uint32_t step = 1; step < m && !usable(server, rail); ++step) {
        const std::uint32_t nic = (rail + step) % m;
        if (rings[nic] < rings[backup]) backup = nic;
      }
      if (rings[backup] == UINT32_MAX) {
        return fail(Fault::kMisuse, "repair_only needs a rail that is alive on all servers; balance does without");
      }
      if (backup != rail) ++rings[backup];
      nic_of_rail.push_back(static_cast<std::uint8_t>(backup));
    }
  }
  return nic_of_rail;
}

// The rate that the slowest NIC has for each of the rings it carries.
double slowest_rate(const Cluster& cluster, const std::vector<std::uint8_t>& nic_of_rail) {
  double slowest = cluster.nic_rate;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    std::vector<std::uint32_t> rings(cluster.nics, 0);
    for (std::uint32_t rail = 0; rail < cluster.nics; ++rail) ++rings[nic_of_rail[server * cluster.nics + rail]];
    for (std::uint32_t nic = 0; nic < cluster.nics; ++nic) {
      if (rings[nic] > 0) slowest = std::min(slowest, cluster.nic(server, nic) / rings[nic]);
    }
  }
  return slowest;
}

}  // namespace

Result<Plan> plan_repair_only(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  if (Status ok = needs_one_gpu(cluster, "repair_only"); !ok) return std::unexpected(ok.error());
  Result<std::vector<std::uint8_t>> nic_of_rail = backups(cluster);
  if (!nic_of_rail) return std::unexpected(nic_of_rail.error());
  Plan plan;
  plan.header = header_for(request, cluster, "repair_only");
  RingSet rings{.orders = std::vector(cluster.nics, in_turn(cluster.servers))};
  set_rings(plan, std::move(rings), {.rate = slowest_rate(cluster, *nic_of_rail)}, request, cluster, tuning);
  plan.header.nic_of_rail = std::move(*nic_of_rail);
  return plan;
}

}  // namespace r2ccl
