// The table of algorithms, and the choice between them.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/single.h"
#include "planner/plan.h"

namespace r2ccl {
namespace {

// An algorithm for one rank per server, run by every GPU of a server on its shard.
template <PlanFunction between>
Result<Plan> lifted(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  return hierarchical(request, cluster, tuning, between);
}

Result<Plan> several_gpus(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  if (cluster.gpus < 2) return fail(Fault::kMisuse, "hierarchical needs several GPUs per server; with one it is ring");
  return hierarchical(request, cluster, tuning, plan_balance);
}

// What auto never considers are the papers' own, for comparison: they do not win. Trees beat stars only where rails are
// isolated.
constexpr auto kAlgorithms = std::to_array<Algorithm>({
    {"direct", "two hops, all at once", Collective::kAllReduce, Automatic::kYes, plan_direct},
    {"recursive_doubling", "log2 p exchanges of everything", Collective::kAllReduce, Automatic::kYes,
     plan_recursive_doubling},
    {"tree", "binary or flat tree up and down", Collective::kAllReduce, Automatic::kYes, plan_tree},
    {"ring", "flat ring over all ranks, one per rail", Collective::kAllReduce, Automatic::kYes, plan_ring},
    {"hierarchical", "ring of servers between intra-server halves", Collective::kAllReduce, Automatic::kYes,
     several_gpus},
    {"repair_only", "healthy ring, one backup NIC carries two shares", Collective::kAllReduce, Automatic::kNo,
     lifted<plan_repair_only>},
    {"balance", "ring, bytes by surviving bandwidth", Collective::kAllReduce, Automatic::kYes, lifted<plan_balance>},
    {"r2", "R²CCL-AllReduce: main ring, sub-ring of the healthy, exchange", Collective::kAllReduce, Automatic::kNo,
     lifted<plan_r2>},
    {"recursive", "r2 level by level, several bandwidth classes", Collective::kAllReduce, Automatic::kNo,
     lifted<plan_recursive>},
    {"weighted_ring", "ring with unequal ownership", Collective::kAllReduce, Automatic::kNo,
     lifted<plan_weighted_ring>},
    {"optcc", "four stages, patterns A to D, filling", Collective::kAllReduce, Automatic::kNo, lifted<plan_optcc>},
    {"weighted_direct", "owners by bandwidth, two hops, pipelined", Collective::kAllReduce, Automatic::kYes,
     lifted<plan_weighted_direct>},
    {"rotated_direct", "the same, whole messages rotate over GPUs", Collective::kAllReduce, Automatic::kYes,
     plan_rotated_direct},
    {"trees", "packed trees: relays on isolated rails, low degree", Collective::kAllReduce, Automatic::kOnRails,
     lifted<plan_trees>},
    {"balance", "by surviving bandwidth", Collective::kReduceScatter, Automatic::kYes, plan_reduce_scatter},
    {"balance", "by surviving bandwidth", Collective::kAllGather, Automatic::kYes, plan_all_gather},
    {"balance", "by surviving bandwidth", Collective::kBroadcast, Automatic::kYes, plan_broadcast},
    {"balance", "by surviving bandwidth", Collective::kReduce, Automatic::kYes, plan_reduce},
    {"balance", "by surviving bandwidth", Collective::kGather, Automatic::kYes, plan_gather},
    {"balance", "by surviving bandwidth", Collective::kScatter, Automatic::kYes, plan_scatter},
    {"balance", "by surviving bandwidth", Collective::kAllToAll, Automatic::kYes, plan_all_to_all},
});

Result<Plan> named(const Algorithm& algorithm, const Request& request, const Cluster& cluster, const Tuning& tuning) {
  Result<Plan> plan = algorithm.plan(request, cluster, tuning);
  if (plan) plan->header.algorithm = algorithm.name;
  return plan;
}

bool considered(const Algorithm& algorithm, const Cluster& cluster) {
  return algorithm.automatic == Automatic::kYes ||
         (algorithm.automatic == Automatic::kOnRails && cluster.fabric == Fabric::kRails);
}

Result<Plan> cheapest(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  Result<Plan> best =
      fail(Fault::kMisuse, fmt::format("no algorithm can do {} on this cluster", to_text(request.collective)));
  std::string first_reason;
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.collective != request.collective || !considered(algorithm, cluster)) continue;
    Result<Plan> candidate = named(algorithm, request, cluster, tuning);
    if (!candidate) {
      if (first_reason.empty()) first_reason = candidate.error().what;
    } else if (!best || candidate->predicted_s < best->predicted_s) {
      best = std::move(candidate);
    }
  }
  if (!best && !first_reason.empty()) best.error().what += ": " + first_reason;
  return best;
}

}  // namespace

std::span<const Algorithm> algorithms() {
  return kAlgorithms;
}

Result<Plan> plan(std::string_view algorithm, const Request& request, const Cluster& cluster, const Tuning& tuning) {
  if (Status ok = validate(cluster); !ok) return std::unexpected(ok.error());
  if (request.root >= cluster.ranks()) {
    return fail(Fault::kMisuse, fmt::format("there is no rank {} to be the root; ranks are 0 to {}", request.root,
                                            cluster.ranks() - 1));
  }
  if (cluster.ranks() == 1) return plan_single(request, cluster);
  if (request.bytes == 0) {
    // Without traffic no link would look needed, and servers that can not reach each other would get a plan. So plan as
    // for one byte.
    Request one_byte = request;
    one_byte.bytes = 1;
    return plan(algorithm, one_byte, cluster, tuning);
  }
  if (algorithm == "auto") return cheapest(request, cluster, tuning);
  std::vector<std::string_view> names{"auto"};
  for (const Algorithm& candidate : kAlgorithms) {
    if (candidate.collective != request.collective) continue;
    if (candidate.name == algorithm) return named(candidate, request, cluster, tuning);
    names.push_back(candidate.name);
  }
  return fail(Fault::kMisuse, fmt::format("there is no algorithm '{}' for {}; there are {}", algorithm,
                                          to_text(request.collective), fmt::join(names, ", ")));
}

}  // namespace r2ccl
