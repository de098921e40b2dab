#pragma once
// How finely a two-hop exchange is cut, by the cost model: more segments overlap the two halves better and cost more messages.

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
};

// Cheapest of K = 1, 2, 4 … 64, with few servers … 256 (or the one asked for), with messages not below the cluster's smallest.
Pipeline choose_pipeline(const Exchange& exchange, const Cluster& cluster, const Tuning& tuning);

}  // namespace r2ccl
