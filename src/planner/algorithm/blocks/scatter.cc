// The root sends every rank its block straight (star.h), to all servers in turn.

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/star.h"

namespace r2ccl {

Result<Plan> plan_scatter(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  return plan_star(request, cluster, tuning, "scatter", true);
}

}  // namespace r2ccl
