// One ring over the servers whose messages are striped over all NICs that are alive, by their rates. The slowest edge
// paces it. On isolated rails the ring is re-ranked first, so that neighbours have many rails in common.

#include <algorithm>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/rings/ring.h"
#include "planner/rerank.h"

namespace r2ccl {

Result<Plan> plan_balance(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  if (Status ok = needs_one_gpu(cluster, "balance"); !ok) return std::unexpected(ok.error());
  Result<std::vector<std::uint32_t>> order = rerank(cluster);
  if (!order) return std::unexpected(order.error());
  Plan plan;
  plan.header = header_for(request, cluster, "balance");
  if (cluster.fabric == Fabric::kRails) plan.header.shares = shares_by_rate(cluster);
  const double rate = ring_capacity(cluster, *order);
  RingSet rings{.orders = {std::move(*order)}, .pinned = false};
  set_rings(plan, std::move(rings), {.rate = rate}, request, cluster, tuning);
  return plan;
}

}  // namespace r2ccl
