#pragma once
// What algorithms that leave the choice of NICs to the transport need to know: the shares of rails that fit their
// traffic, the time it takes at best, how many messages are under way, and short names for places of ranks.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "planner/algorithm/parts/steps.h"
#include "schedule/schedule.h"
#include "topology/cluster.h"

namespace r2ccl {

// Bytes from server u to server v, [u * servers + v].
struct PairBytes {
  std::uint32_t servers = 0;
  std::vector<double> bytes;

  explicit PairBytes(std::uint32_t count) : servers(count), bytes(std::size_t{count} * count, 0.0) {}
  double& at(std::uint32_t u, std::uint32_t v) { return bytes[std::size_t{u} * servers + v]; }
  double at(std::uint32_t u, std::uint32_t v) const { return bytes[std::size_t{u} * servers + v]; }
};
// `bytes` from every server to every other.
PairBytes all_pairs(std::uint32_t servers, double bytes);

struct PairNetwork {
  RailShares shares;  // empty on a routed fabric, where any NIC reaches any
  double time_s = 0;  // bytes over rates on the busiest NIC, or server where NICs are pooled
};
// Fails with one sentence where two servers have traffic and no common rail.
Result<PairNetwork> network_for(const PairBytes& traffic, const Cluster& cluster);

// Messages a sender may be ahead on a connection that carries one every `interval_s`: two, and what a receipt takes to
// come back.
std::uint32_t slots_for(double interval_s, double alpha_s);

// A rank as a place.
struct RankPlace {
  std::uint32_t server = 0;
  std::uint32_t gpu = 0;
};
inline RankPlace place_of(std::uint32_t rank, std::uint32_t gpus) {
  return {rank / gpus, rank % gpus};
}

// The rank, or the block, of GPU `gpu` of the server that `server` gives.
inline Index on_gpu(Index server, std::uint32_t gpus, std::uint32_t gpu) {
  server.scale = static_cast<std::int32_t>(gpus);
  server.offset = static_cast<std::int32_t>(gpu);
  return server;
}

inline Operand scratch(std::int64_t slot) {
  return {Buffer::kScratch, fixed(slot)};
}

inline Step with_source(Operand source, Step step) {
  step.source = source;
  return step;
}
inline Step with_destination(Operand destination, Step step) {
  step.destination = destination;
  return step;
}

// destination <- destination + source
inline Step reduce(const Where& where, Operand source, Buffer destination) {
  Step step{.kind = StepKind::kReduce, .span = where.span, .segment = where.segment};
  step.source = source;
  step.destination = in(destination);
  return step;
}

}  // namespace r2ccl
