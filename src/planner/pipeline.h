#pragma once
// How finely a two-hop exchange is cut. More segments overlap its two halves better but cost more messages; the cost
// model finds the number that takes least.

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

// An exchange as the cost model sees it: the time it would take if its halves overlapped perfectly, and what a round
// (one segment) costs besides.
struct Exchange {
  double ideal_s = 0;    // bytes over rates on the busiest port
  double kappa = 0;      // share of a round that the first and last segment add (ownership.h)
  double fill_s = 0;     // time of other stages that one segment must pass before and after, for the whole data
  double messages = 0;   // how many the busiest NIC handles for one segment
  double latency_s = 0;  // of the hops of one segment
  std::uint64_t message_bytes = 0;  // the typical message without segments
  // Stages that lie between the two halves take so long; the halves stand further apart by it.
  double turn_s = 0;
  std::uint32_t least_lag = 2;  // rounds between the halves, whatever the times are
  bool may_be_long = false;     // up to 96 segments are worth their messages where 64 cost more than 3 %
};

// The numbers of segments to try where a pipeline is to be as long as it can: 1, 2, 4, 8, 16, from there eight to the
// next power of two.
inline std::uint32_t more_segments(std::uint32_t segments) {
  return segments < 16 ? 2 * segments : segments + std::bit_floor(segments) / 8;
}

// The cheapest number of segments, K:
//   nothing asked for        of 1, 2, 4 … 64; up to 256 where NICs handle few messages for a segment and these are
//                            large; also 72 … 96 where it may be long. Messages are not below the cluster's smallest
//   tuning.segments          that number
//   .exchange_segments       that number, or 2, 4, 8 times as many with messages not below half of the smallest
Pipeline choose_pipeline(const Exchange& exchange, const Cluster& cluster, const Tuning& tuning);

}  // namespace r2ccl
