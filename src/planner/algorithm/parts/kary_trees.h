#pragma once
// Trees of low degree for a routed fabric: a server has few peers in each tree, where stars would give it all of them.

#include <cstdint>
#include <span>
#include <vector>

#include "planner/rails.h"

namespace r2ccl {

// `count` trees of equal weight in which servers have up to `degree` children (the root one more) and are interior
// about as often as their share `rho` (ownership.h) says: each tree takes the servers with most credit. Loads are off
// by about degree / 2 / count of the data. Pure; ties go to the lower id.
std::vector<TreeShape> kary_trees(std::span<const double> rho, std::uint32_t degree, std::uint32_t count);

}  // namespace r2ccl
