#pragma once
// The one slow server that weighted_ring and optcc are made for.

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "topology/cluster.h"

namespace r2ccl {

struct Straggler {
  std::uint32_t server = 0;
  double slowdown = 1;  // l >= 1: healthy rate over its rate
};

// A healthy cluster has server 0 with slowdown 1. Fails with one sentence, under the algorithm's name, when several are
// degraded or there is more than one GPU per server.
Result<Straggler> find_straggler(const Cluster& cluster, std::string_view algorithm, std::uint32_t least_servers);

}  // namespace r2ccl
