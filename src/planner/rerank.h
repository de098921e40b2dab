#pragma once
// The order of servers in a ring. On isolated rails two neighbours can only use the rails that both have, so neighbours
// that lost different NICs make a thin edge; another server between them, which shares rails with both, makes it wide
// again.

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "topology/cluster.h"

namespace r2ccl {

// Bytes per second between two servers: on a routed fabric what the weaker has in all, on isolated rails what they have
// in common.
double edge_capacity(const Cluster& cluster, std::uint32_t u, std::uint32_t v);
// The capacity of the thinnest edge around the ring; for one server alone, its own rate.
double ring_capacity(const Cluster& cluster, std::span<const std::uint32_t> order);

// A ring order that maximises the thinnest edge, exactly for up to kExactServers servers and by search for more. It is
// the servers' own order where that is as good, and always on a routed fabric. Every rank gets the same. kMisuse with
// one sentence when two neighbours without a common rail can not be avoided.
inline constexpr std::uint32_t kExactServers = 10;
Result<std::vector<std::uint32_t>> rerank(const Cluster& cluster);

}  // namespace r2ccl
