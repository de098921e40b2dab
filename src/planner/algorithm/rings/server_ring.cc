// The healthy algorithm for large messages: a ring over the servers in every rail.

#include <algorithm>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/rings/ring.h"

namespace r2ccl {

Result<Plan> plan_server_ring(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  if (Status ok = needs_one_gpu(cluster, "server_ring"); !ok) return std::unexpected(ok.error());
  const double slowest = *std::ranges::min_element(cluster.rate);
  if (cluster.servers > 1 && slowest <= 0) {
    return fail(Fault::kMisuse,
                "server_ring needs every NIC alive, a rail of its own for each part of the data; balance does without");
  }
  Plan plan;
  plan.header = header_for(request, cluster, "server_ring");
  RingSet rings{.orders = std::vector(cluster.nics, in_turn(cluster.servers))};
  set_rings(plan, std::move(rings), {.rate = slowest}, request, cluster, tuning);
  return plan;
}

}  // namespace r2ccl
