#pragma once
// Any collective of one rank: what it gives is what it gets.

#include "planner/plan.h"

namespace r2ccl {

Result<Plan> plan_single(const Request& request, const Cluster& cluster);

}  // namespace r2ccl
