#pragma once
// How finely a two-hop exchange is cut, by the cost model: more segments overlap the two halves better and cost more messages.

#include <bit>
#include <cstdint>

#include "planner/plan.h"

namespace r2ccl {

struct Pipeline {
  std::uint32_t segments = 1;  // K
  std::uint32_t lag = 2;       // the all-gather half runs so many segments behind the reduce-scatter half
  std::uint32_t slots = 2;     // messages a sender may be ahead of its receiver
  double predicted_s = 0;
};

// What the exchange would need if it were perfectly overlapped, and what a round costs besides.
struct Exchange {
  double ideal_s = 0;    // bytes over rates on the busiest port
  double kappa = 0;      // share of a round that the first and last segment add (ownership.h)
  double fill_s = 0;     // time of other stages that one segment must pass before and after, for the whole data
  double messages = 0;   // that the busiest NIC handles for one segment
  double latency_s = 0;  // of the hops of one segment
  std::uint64_t message_bytes = 0;  // the typical message without segments
  // The halves stand further apart than a latency by this, for stages between them; and so many rounds at least.
  double turn_s = 0;
  std::uint32_t least_lag = 2;
  bool may_be_long = false;  // up to 96 segments are worth their messages where 64 cost more than 3 %
};

// The numbers of segments to try where a pipeline is to be as long as it can: 1, 2, 4, 8, 16, from there eight to the next power of two.
inline std::uint32_t more_segments(std::uint32_t segments) {
  return segments < 16 ? 2 * segments : segments + std::bit_floor(segments) / 8;
}

// Cheapest of K = 1, 2, 4 … 64, with few servers … 256, where it may be long also 72 … 96, with messages not below the cluster's
// smallest; or what is asked for: `segments` as they are, `exchange_segments` or 2, 4, 8 times as many, with messages not below half of it.
Pipeline choose_pipeline(const Exchange& exchange, const Cluster& cluster, const Tuning& tuning);

}  // namespace r2ccl
