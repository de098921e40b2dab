// Server i owns share rho_i of the data. Everybody sends that piece straight to its owner, which adds in fixed order
// and sends the sum straight back: two hops, and T* for any bandwidths. In segments, so that the two halves overlap: a
// weak server sends more than it receives in the first half and receives more than it sends in the second.

#include <algorithm>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/two_hops.h"
#include "planner/owners.h"
#include "planner/pipeline.h"

namespace r2ccl {
namespace {

// A slow NIC delays the part of a message that it carries, so what is a latency to the pipeline is longer.
Cluster with_slow_nics(Cluster cluster, std::uint64_t message_bytes) {
  constexpr double kLargestPart = 128 << 10;  // the transport's
  constexpr double kUsualSegments = 32;
  double slowest = cluster.nic_rate;
  for (const double rate : cluster.rate) {
    if (rate > 0) slowest = std::min(slowest, rate);
  }
  const double part = std::min(kLargestPart, static_cast<double>(message_bytes) / kUsualSegments);
  cluster.alpha_s += part / slowest - part / cluster.nic_rate;
  return cluster;
}

}  // namespace

Result<Plan> plan_weighted_direct(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  const std::uint32_t q = cluster.servers;
  Result<Owners> owners = owners_of(cluster);
  if (!owners) return std::unexpected(owners.error());

  const double bytes = static_cast<double>(request.bytes);
  const Exchange exchange{.ideal_s = owners->ideal * bytes,
                          .kappa = owners->kappa,
                          .fill_s = cluster.crowded(owners->ideal * bytes),
                          .messages = cluster.messages(2.0 * (q - 1)),
                          .latency_s = 2 * cluster.alpha_s,
                          .message_bytes = request.bytes / q};
  const Pipeline pipeline = choose_pipeline(exchange, with_slow_nics(cluster, exchange.message_bytes), tuning);

  Plan plan;
  plan.header = header_for(request, cluster, "weighted_direct");
  plan.header.layout.bounds = piece_bounds(owners->rho);
  plan.header.layout.segments = pipeline.segments;
  plan.header.slots = pipeline.slots;
  plan.header.shares = std::move(owners->shares);
  plan.predicted_s = pipeline.predicted_s;
  const std::uint32_t k = pipeline.segments;
  const std::uint32_t lag = pipeline.lag;
  const Hop first{.begin = 0, .end = k, .segment = outer_plus(0)};
  const Hop second{.begin = lag, .end = k + lag, .segment = outer_plus(-static_cast<std::int32_t>(lag))};
  plan.lanes = [q, first, second](std::uint32_t rank) { return two_hops(rank, q, first, second); };
  return plan;
}

}  // namespace r2ccl
