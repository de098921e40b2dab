#pragma once
// gather and scatter: every rank and the root exchange one block, straight. The root's NICs are the bound.

#include <string_view>

#include "planner/plan.h"

namespace r2ccl {

// The root gives every rank its block (`outward`) or takes it. Fails where the rails do not carry it.
Result<Plan> plan_star(const Request& request, const Cluster& cluster, const Tuning& tuning, std::string_view name,
                       bool outward);

}  // namespace r2ccl
