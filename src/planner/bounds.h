#pragma once
// What no schedule can beat on a cluster, and the times of healthy rings to compare with, all without latency. The
// functions are pure, and exact up to the rounding of doubles. Some are templates on the number type, so that tests
// can use rationals.

#include <algorithm>
#include <cstdint>
#include <span>

#include "schedule/schedule.h"
#include "topology/cluster.h"

namespace r2ccl {

// T* for unit data: max(1 / min B, 2 (q - 1) / sum B). 0 for one server.
template <class Number>
Number allreduce_bound(std::span<const Number> bandwidth) {
  const auto q = static_cast<int>(bandwidth.size());
  if (q < 2) return Number(0);
  Number sum(0);
  Number least = bandwidth[0];
  for (const Number& b : bandwidth) {
    sum = sum + b;
    if (b < least) least = b;
  }
  const Number one = Number(1) / least;
  const Number all = Number(2 * (q - 1)) / sum;
  return one < all ? all : one;
}

// The bound of the OptCC paper for unit data and unit bandwidth, one member slowed by l >= 1, where a NIC serves one
// peer at a time: max(2 l (p - 1) / (l (p - 2) + 2), l).
template <class Number>
Number one_port_bound(int members, Number l) {
  if (members < 2) return Number(0);
  const Number paced = Number(2 * (members - 1)) * l / (l * Number(members - 2) + Number(2));
  return paced < l ? l : paced;
}

// Healthy ring over p members for unit data and bandwidth: 2 (p - 1) / p.
template <class Number>
Number ring_time(int members) {
  return Number(2 * (members - 1)) / Number(members);
}

// In the proofs (bounds.cc) n is Request::bytes, the whole vector; a block collective has p blocks of n / p. There are
// p = q g ranks on q servers. B_i is what the NICs of server i move together in each direction, I what a GPU's fabric
// port moves; B is a healthy server's.
struct Bounds {
  double bound_s = 0;    // what no schedule can beat on this cluster: max(network_s, ports_s)
  double network_s = 0;  // T* of pooled NICs (for all_reduce), or the collective's own volume bound; 0 for one server
  double ports_s = 0;    // the same for NICs and fabric ports together; 0 with one GPU per server
  // The fabric's time in a schedule whose NICs carry the least they can; 0 with one GPU per server. This is not a
  // bound: a flat ring relieves the fabric a little at the NICs' cost.
  double intra_s = 0;
  double one_port_s = 0;      // all_reduce with one degraded server: the OptCC paper's; otherwise 0
  double healthy_ring_s = 0;  // the collective on the healthy cluster, hierarchical (one server: over its fabric)
  double healthy_flat_s = 0;  // … as a flat ring over all ranks; the same where a ring is not the way to do it
};
// On isolated rails an all_reduce over few servers (rails.h: kPackServers) is bounded by the linear program over NICs,
// solved to 0.1 % from below; with more servers, and for other collectives, by the pooled bound, which is a lower bound
// there too. `root` is the rank that gathers, scatters, broadcasts or reduces. The proofs stand in bounds.cc.
Bounds bounds_of(Collective collective, std::uint64_t bytes, const Cluster& cluster, std::uint32_t root = 0);

}  // namespace r2ccl
