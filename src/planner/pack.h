#pragma once
// What fit_rails() and pack_trees() (rails.h) share: the traffic of each pair of servers by rail, its rounding to
// shares, and the load that the shares put on NICs.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedule/schedule.h"
#include "topology/cluster.h"

namespace r2ccl {

// What each pair of servers exchanges on each rail in one direction, as a share of the data. Stored at
// [(u * servers + v) * rails + k] for u < v only.
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

// The NIC rates that can count: the rest of a rail bounds what one NIC can use of it, so a rail with one survivor is
// worth nothing.
std::vector<double> usable_rates(const Cluster& cluster);

// Rounds traffic to shares of 1/kShareUnit. Each is within one unit of its traffic's part, and those of a pair sum to
// kShareUnit: parts are rounded down, and what is missing goes to the rails whose two NICs have most room. (Always
// favouring one rail would overload it with many pairs, and one unit too many is much for a slow NIC.) A pair without
// traffic gets shares by the smaller rate of both ends over its common rails, or zeros when it has none.
RailShares round_shares(const Cluster& cluster, const PairTraffic& traffic);

// What servers u and v can exchange on rail k: 0 where the rail does not join them.
inline double rail_rate(const Cluster& cluster, std::uint32_t u, std::uint32_t v, std::uint32_t k) {
  return std::min(cluster.nic(u, k), cluster.nic(v, k));
}

// The time that unit data takes when each pair's whole traffic (the amounts of all its rails) is divided by `shares`:
// the largest load / rate of any NIC.
double load_of(const Cluster& cluster, const RailShares& shares, const PairTraffic& traffic);

}  // namespace r2ccl
