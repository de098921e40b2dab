// Server i owns share rho_i of the data. Everybody sends that piece straight to its owner, which adds in fixed order and sends the
// sum straight back: two hops, and T* for any bandwidths. In segments, so that the two halves overlap: a weak server sends more
// than it receives in the first half and receives more than it sends in the second.

#include <algorithm>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/steps.h"
#include "planner/owners.h"
#include "planner/pipeline.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kReduceChannel = 0;
constexpr std::uint32_t kGatherChannel = 1;
constexpr std::uint32_t kOutLane = 0;
constexpr std::uint32_t kInLane = 1;

std::vector<Lane> lanes_of(std::uint32_t me, std::uint32_t q, const Pipeline& pipeline) {
  const std::uint32_t k = pipeline.segments;
  const std::uint32_t lag = pipeline.lag;
  // Peers in rotation, so that at any time everybody sends to somebody else.
  const Index next = rotate(me + 1, 1, q);
  const Index previous = rotate(std::int64_t{me} - 1, -1, q);
  const Index now = outer_plus(0);
  const Index behind = outer_plus(-static_cast<std::int32_t>(lag));
  const Wait summed{.lane = kInLane, .step = 0, .outer_offset = -static_cast<std::int32_t>(lag)};

  Lane out{.name = "out", .outer = k + lag, .inner = q - 1, .steps = {}};
  out.steps.push_back(during(0, k, send(next, {next, now}, Buffer::kInput, kReduceChannel)));
  out.steps.push_back(
      during(lag, k + lag, after(summed, send(next, {fixed(me), behind}, Buffer::kOutput, kGatherChannel))));

  Lane into{.name = "in", .outer = k + lag, .inner = q - 1, .steps = {}};
  into.steps.push_back(
      during(0, k, accumulate(previous, {fixed(me), now}, Buffer::kInput, Buffer::kOutput, kReduceChannel)));
  into.steps.push_back(during(lag, k + lag, recv(previous, {previous, behind}, Buffer::kOutput, kGatherChannel)));
  return {std::move(out), std::move(into)};
}

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
                          .fill_s = 0,
                          .messages = 2.0 * (q - 1) / cluster.nics,
                          .latency_s = 2 * cluster.alpha_s,
                          .message_bytes = request.bytes / q};
  const Pipeline pipeline = choose_pipeline(exchange, with_slow_nics(cluster, exchange.message_bytes), tuning);

  Plan plan;
  plan.frame = frame_for(request, cluster, "weighted_direct");
  plan.frame.layout.bounds = piece_bounds(owners->rho);
  plan.frame.layout.segments = pipeline.segments;
  plan.frame.slots = pipeline.slots;
  plan.frame.shares = std::move(owners->shares);
  plan.predicted_s = pipeline.predicted_s;
  plan.lanes = [q, pipeline](std::uint32_t rank) { return lanes_of(rank, q, pipeline); };
  return plan;
}

}  // namespace r2ccl
