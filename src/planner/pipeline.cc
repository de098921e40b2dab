#include "planner/pipeline.h"

#include <algorithm>
#include <cmath>

namespace r2ccl {
namespace {

// So many segments always; up to the second limit where an exchange may be long; up to the last where each NIC handles
// few messages for one, and large ones.
constexpr std::uint32_t kUsualSegments = 64;
constexpr std::uint32_t kLongSegments = 96;
constexpr std::uint32_t kMostSegments = 256;
constexpr double kMostMessages = 1024;  // of a NIC, with more than the usual segments
constexpr std::uint64_t kLargeMessage = 512 << 10;
constexpr std::uint32_t kFiner = 8;  // times the segments asked for, at most
constexpr double kAim = 1.03;        // over the ideal

Pipeline with_segments(std::uint32_t segments, const Exchange& exchange, const Cluster& cluster, const Tuning& tuning) {
  Pipeline pipeline{.segments = segments};
  const double round_s = std::max(exchange.ideal_s / segments, 1e-9);
  const double alphas = cluster.alpha_s / round_s;
  const double turns = (cluster.alpha_s + exchange.turn_s + tuning.turn_s) / round_s;
  // One round behind would wait for a latency in every round. More than a few dozen only cost scratch.
  pipeline.lag =
      segments == 1 ? 1 : static_cast<std::uint32_t>(std::clamp<double>(1 + std::ceil(turns), exchange.least_lag, 32));
  pipeline.slots = static_cast<std::uint32_t>(std::clamp(2 + std::ceil(2 * alphas), 2.0, 32.0));
  // Of two segments the halves overlap by one as soon as they can.
  const double behind = segments == 2 ? 1 : pipeline.lag;
  pipeline.predicted_s = exchange.ideal_s + (behind * exchange.kappa * exchange.ideal_s + exchange.fill_s) / segments +
                         exchange.latency_s + exchange.messages * segments * cluster.port_cost_s;
  return pipeline;
}

}  // namespace

Pipeline choose_pipeline(const Exchange& exchange, const Cluster& cluster, const Tuning& tuning) {
  const auto asked = tuning.exchange_segments ? tuning.exchange_segments : tuning.segments;
  Pipeline best = with_segments(asked.value_or(1), exchange, cluster, tuning);
  const auto large_enough = [&](std::uint32_t segments) {
    return exchange.message_bytes / segments >= cluster.min_message;
  };
  const auto consider = [&](std::uint32_t segments) {
    const Pipeline next = with_segments(segments, exchange, cluster, tuning);
    if (next.predicted_s < best.predicted_s) best = next;
  };
  if (asked && !tuning.exchange_segments) return best;
  if (asked) {
    for (std::uint32_t finer = 2; finer <= kFiner; finer *= 2) {
      if (exchange.message_bytes / (*asked * finer) >= cluster.min_message / 2) consider(*asked * finer);
    }
    return best;
  }
  for (std::uint32_t segments = 2; segments <= kMostSegments && large_enough(segments); segments *= 2) {
    const bool few_and_large =
        exchange.messages * segments <= kMostMessages && exchange.message_bytes / segments >= kLargeMessage;
    if (segments > kUsualSegments && !few_and_large) break;
    consider(segments);
  }
  if (!exchange.may_be_long || best.segments < kUsualSegments) return best;
  for (std::uint32_t segments = more_segments(best.segments); segments <= kLongSegments && large_enough(segments);
       segments = more_segments(segments)) {
    if (best.predicted_s > kAim * exchange.ideal_s) consider(segments);
  }
  return best;
}

}  // namespace r2ccl
