#include "planner/algorithm/blocks/blocks.h"

#include <algorithm>

#include "planner/algorithm/algorithm.h"
#include "planner/pipeline.h"

namespace r2ccl {

Result<Plan> plan_blocks(const Request& request, const Cluster& cluster, const Tuning& tuning, std::string_view name,
                         const BlockWork& work) {
  Result<PairNetwork> network = network_for(work.traffic, cluster);
  if (!network) return std::unexpected(network.error());
  const double near_s = work.near_bytes / cluster.intra_rate;
  const double ideal_s = std::max(network->time_s, near_s);
  const Exchange exchange{
      .ideal_s = ideal_s,
      .kappa = 0,
      .fill_s = work.stages > 1 ? std::min(network->time_s, near_s) : 0,
      .messages = work.messages / cluster.nics,
      .latency_s = (cluster.servers > 1 ? cluster.alpha_s : 0) + (cluster.gpus > 1 ? cluster.intra_alpha_s : 0),
      .message_bytes = request.bytes / cluster.ranks()};
  const Pipeline pipeline = choose_pipeline(exchange, cluster, tuning);

  Plan plan;
  plan.header = header_for(request, cluster, name);
  plan.header.layout = Layout::equal(cluster.ranks(), pipeline.segments);
  plan.header.layout.order = Layout::Order::kSegmentsInside;
  plan.header.slots = pipeline.slots;
  if (cluster.gpus > 1) {
    const double interval_s = ideal_s / pipeline.segments / work.on_connection;
    plan.header.slots = std::max(plan.header.slots, slots_for(interval_s, cluster.intra_alpha_s));
  }
  plan.header.shares = std::move(network->shares);
  plan.predicted_s = pipeline.predicted_s;
  return plan;
}

BlockWork block_per_server(const Request& request, const Cluster& cluster) {
  const double block = static_cast<double>(request.bytes) / cluster.ranks();
  return {.traffic = all_pairs(cluster.servers, cluster.gpus * block),
          .near_bytes = block * cluster.servers * (cluster.gpus - 1),
          .stages = cluster.gpus > 1 ? 2.0 : 1.0,
          .messages = 1.0 * cluster.gpus * (cluster.servers - 1),
          .on_connection = 1.0 * cluster.servers};
}

}  // namespace r2ccl
