#pragma once
// What fit_rails() and pack_trees() (rails.h) share: traffic of pairs by rail, its rounding to shares, and the load that results.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedule/schedule.h"
#include "topology/cluster.h"

namespace r2ccl {

// PairBytes of all pairs by rail, in shares of the data and one direction; [(u * servers + v) * rails + k], only u < v is used.
struct PairTraffic {
  std::uint32_t servers = 0;
  std::uint32_t rails = 0;
  std::vector<double> amount;

  PairTraffic(std::uint32_t server_count, std::uint32_t rail_count)
      : servers(server_count), rails(rail_count), amount(std::size_t{server_count} * server_count * rail_count, 0.0) {}
  double* of(std::uint32_t u, std::uint32_t v) { return amount.data() + index(u, v); }
  const double* of(std::uint32_t u, std::uint32_t v) const { return amount.data() + index(u, v); }

 private:
  std::size_t index(std::uint32_t u, std::uint32_t v) const {
    return (std::size_t{u < v ? u : v} * servers + (u < v ? v : u)) * rails;
  }
};

// The NIC rates that can count: the rest of a rail bounds what one NIC can use of it, so a rail with one survivor is worth nothing.
std::vector<double> usable_rates(const Cluster& cluster);

// In 1/kShareUnit, each within one unit of its traffic's part and each pair's sum exact: parts are rounded down, and what is missing
// goes to the rails whose two NICs have most room, since always favouring the same rail would overload it with many pairs, and one
// unit too many is much for a slow NIC. A pair without traffic gets shares by min(rate, rate) over its common rails, or zeros when
// it has none.
RailShares round_shares(const Cluster& cluster, const PairTraffic& traffic);

// Of NIC u, k and of NIC v, k together: 0 where the rail does not join them.
inline double rail_rate(const Cluster& cluster, std::uint32_t u, std::uint32_t v, std::uint32_t k) {
  return std::min(cluster.nic(u, k), cluster.nic(v, k));
}

// Time for unit data: each pair's whole traffic (the amounts of all its rails), divided by `shares`; the largest load / rate of NICs.
double load_of(const Cluster& cluster, const RailShares& shares, const PairTraffic& traffic);

}  // namespace r2ccl
