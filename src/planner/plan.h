#pragma once
// Plans: a pure function of (request, cluster) gives a schedule. Same inputs, same bytes out, on any rank. One file per
// algorithm in algorithm/, one row per algorithm in algorithms.cc.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schedule/schedule.h"
#include "topology/cluster.h"

namespace r2ccl {

struct Request {
  Collective collective = Collective::kAllReduce;
  // Of the whole vector (schedule/layout.h): what nccl-tests calls size. For all_gather, reduce_scatter, gather,
  // scatter and all_to_all that is ranks x block.
  std::uint64_t bytes = 0;
  std::uint32_t root = 0;
};

// What an algorithm chooses by itself unless told.
struct Tuning {
  std::optional<std::uint32_t> segments = {};  // K
  // Used in place of `segments` by two-hop exchanges. Their first and last segments overlap with nothing, so they gain
  // by more segments than rings do. They take at least this number, and more where servers are so unequal that the
  // cost model says it pays (pipeline.h).
  std::optional<std::uint32_t> exchange_segments = {};
  // R²CCL-AllReduce: the share Y of the data that bypasses the main ring is the lost fraction X, or the minimiser Y*;
  // the stage that merges it is one pass (0) or a reduce and a broadcast pipelined in so many chunks.
  enum class Tail : std::uint8_t { kLostFraction, kOptimal };
  Tail r2_tail = Tail::kOptimal;
  std::uint32_t r2_chunks = 0;
  // Latency of stages that lie between the two halves of an exchange, which stand further apart for it.
  double turn_s = 0;
};

struct Plan {
  PlanHeader header;
  std::function<std::vector<Lane>(std::uint32_t rank)> lanes;  // emits one rank's part
  double predicted_s = 0;                                      // by the cost model

  Schedule schedule() const;  // all ranks
};

// kMisuse with one sentence where the algorithm does not apply ("weighted_ring needs exactly one degraded server; 3
// are"). The cluster was validated.
using PlanFunction = Result<Plan> (*)(const Request&, const Cluster&, const Tuning&);

// Where auto considers an algorithm: nowhere, everywhere, or on isolated rails only.
enum class Automatic : std::uint8_t { kNo, kYes, kOnRails };

struct Algorithm {
  std::string_view name;
  std::string_view meaning;  // a few words for people
  Collective collective;
  Automatic automatic;
  PlanFunction plan;
};

// In the order of their table.
std::span<const Algorithm> algorithms();
// By name, or "auto": the cheapest by the cost model. Validates the cluster and the request.
Result<Plan> plan(std::string_view algorithm, const Request& request, const Cluster& cluster,
                  const Tuning& tuning = {});

}  // namespace r2ccl
