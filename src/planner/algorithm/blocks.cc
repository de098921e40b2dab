#include "planner/algorithm/blocks.h"

#include <algorithm>
#include <cmath>

#include "planner/algorithm/algorithm.h"
#include "planner/pipeline.h"

namespace r2ccl {
namespace {

// Messages that follow each other on a connection inside a server: enough of them under way to cover the receipt of the first.
std::uint32_t near_slots(double interval_s, const Cluster& cluster) {
  return static_cast<std::uint32_t>(
      std::clamp(2 + std::ceil(2 * cluster.intra_alpha_s / std::max(interval_s, 1e-9)), 2.0, 32.0));
}

}  // namespace

Result<Plan> plan_blocks(const Request& request, const Cluster& cluster, const Tuning& tuning, std::string_view name,
                         const BlockWork& work) {
  Result<Network> network = network_for(work.traffic, cluster);
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
  plan.frame = frame_for(request, cluster, name);
  plan.frame.layout = Layout::equal(cluster.ranks(), pipeline.segments);
  plan.frame.layout.order = Layout::Order::kSegmentsInside;
  plan.frame.slots = pipeline.slots;
  if (cluster.gpus > 1) {
    plan.frame.slots =
        std::max(plan.frame.slots, near_slots(ideal_s / pipeline.segments / work.on_connection, cluster));
  }
  plan.frame.shares = std::move(network->shares);
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

BlockWork block_of_root(const Request& request, const Cluster& cluster, bool outward) {
  const double block = static_cast<double>(request.bytes) / cluster.ranks();
  const std::uint32_t root = request.root / cluster.gpus;
  BlockWork work{.traffic = PairBytes(cluster.servers),
                 .near_bytes = block * (cluster.gpus - 1),
                 .stages = 1,
                 .messages = 1.0 * cluster.gpus * (cluster.servers - 1),
                 .on_connection = 1};
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    if (server != root)
      (outward ? work.traffic.at(root, server) : work.traffic.at(server, root)) = cluster.gpus * block;
  }
  return work;
}

}  // namespace r2ccl
