#pragma once
// One function per algorithm, each in the file of its name. All are PlanFunctions (planner/plan.h); those marked * plan
// for one rank per server only and are lifted to several by hierarchical().

#include "planner/plan.h"

namespace r2ccl {

// all_reduce
Result<Plan> plan_direct(const Request& request, const Cluster& cluster, const Tuning& tuning);  // all ranks at once
Result<Plan> plan_recursive_doubling(const Request& request, const Cluster& cluster,
                                     const Tuning& tuning);                                           // all ranks
Result<Plan> plan_tree(const Request& request, const Cluster& cluster, const Tuning& tuning);         // all ranks
Result<Plan> plan_ring(const Request& request, const Cluster& cluster, const Tuning& tuning);         // flat, all ranks
Result<Plan> plan_server_ring(const Request& request, const Cluster& cluster, const Tuning& tuning);  // *
Result<Plan> plan_repair_only(const Request& request, const Cluster& cluster, const Tuning& tuning);  // *
Result<Plan> plan_balance(const Request& request, const Cluster& cluster, const Tuning& tuning);      // *
Result<Plan> plan_r2(const Request& request, const Cluster& cluster, const Tuning& tuning);           // *
Result<Plan> plan_recursive(const Request& request, const Cluster& cluster, const Tuning& tuning);    // *
Result<Plan> plan_weighted_ring(const Request& request, const Cluster& cluster, const Tuning& tuning);    // *
Result<Plan> plan_optcc(const Request& request, const Cluster& cluster, const Tuning& tuning);            // *
Result<Plan> plan_weighted_direct(const Request& request, const Cluster& cluster, const Tuning& tuning);  // *
Result<Plan> plan_trees(const Request& request, const Cluster& cluster, const Tuning& tuning);            // *

// Reduce-scatter inside each server, `between` per GPU on its shard, all-gather inside; the three pipelined by segment.
// With one GPU per server it is `between` itself.
Result<Plan> hierarchical(const Request& request, const Cluster& cluster, const Tuning& tuning, PlanFunction between);
// weighted_direct for many servers with several GPUs, where shards would make messages too small: whole messages rotate
// over the GPUs of a server.
Result<Plan> plan_rotated_direct(const Request& request, const Cluster& cluster, const Tuning& tuning);

// The other collectives, any number of GPUs per server.
Result<Plan> plan_reduce_scatter(const Request& request, const Cluster& cluster, const Tuning& tuning);
Result<Plan> plan_all_gather(const Request& request, const Cluster& cluster, const Tuning& tuning);
Result<Plan> plan_broadcast(const Request& request, const Cluster& cluster, const Tuning& tuning);
Result<Plan> plan_reduce(const Request& request, const Cluster& cluster, const Tuning& tuning);
Result<Plan> plan_gather(const Request& request, const Cluster& cluster, const Tuning& tuning);
Result<Plan> plan_scatter(const Request& request, const Cluster& cluster, const Tuning& tuning);
Result<Plan> plan_all_to_all(const Request& request, const Cluster& cluster, const Tuning& tuning);

// What every plan starts from: collective, ranks, root and name filled in.
PlanHeader header_for(const Request& request, const Cluster& cluster, std::string_view algorithm);

}  // namespace r2ccl
