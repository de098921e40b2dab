// Every rank sends its block straight to the root (star.h), which takes from all servers in turn.

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/star.h"

namespace r2ccl {

Result<Plan> plan_gather(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  return plan_star(request, cluster, tuning, "gather", false);
}

}  // namespace r2ccl
