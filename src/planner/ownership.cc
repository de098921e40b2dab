#include "planner/ownership.h"

#include <algorithm>

#include "base/assert.h"
#include "planner/bounds.h"

namespace r2ccl {

std::vector<double> owned_shares(std::span<const double> bandwidth, double bound) {
  const std::size_t q = bandwidth.size();
  if (q <= 2) return std::vector<double>(q, 1.0 / static_cast<double>(q));
  std::vector<double> spare(q);
  for (std::size_t i = 0; i < q; ++i) spare[i] = std::max(0.0, bandwidth[i] * bound - 1);

  // Water-filling from the least spare up: each takes all it can or an equal part of what is left.
  std::vector<double> rising = spare;
  std::sort(rising.begin(), rising.end());
  double left = static_cast<double>(q - 2);
  double level = rising.back();
  for (std::size_t i = 0; i < q; ++i) {
    const double equal = left / static_cast<double>(q - i);
    if (rising[i] >= equal) {
      level = equal;
      break;
    }
    left -= rising[i];
  }

  double sum = 0;
  for (double& s : spare) sum += s = std::min(s, level);
  R2CCL_ASSERT(sum > 0, "nobody has bandwidth to own data");
  for (double& s : spare) s /= sum;
  return spare;
}

Ownership ownership(std::span<const double> bandwidth) {
  R2CCL_ASSERT(!bandwidth.empty(), "no servers");
  Ownership result;
  result.bound = allreduce_bound(bandwidth);
  result.rho = owned_shares(bandwidth, result.bound);
  if (bandwidth.size() == 1) return result;
  for (std::size_t i = 0; i < bandwidth.size(); ++i) {
    const double uneven = 1 - static_cast<double>(bandwidth.size()) * result.rho[i];
    result.kappa = std::max(result.kappa, uneven / (bandwidth[i] * result.bound));
  }
  return result;
}

}  // namespace r2ccl
