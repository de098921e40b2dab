#include "session/streams/stripe.h"

#include <algorithm>

#include "session/rate.h"

namespace r2ccl {

std::uint64_t in_flight_max(const StripeCandidate& path, const SessionLimits& limits) {
  const auto bytes_in = [&](Duration time) { return static_cast<std::uint64_t>(to_seconds(time) * path.rate_bytes_s); };
  const std::uint64_t most =
      std::max<std::uint64_t>(limits.path_in_flight_most, bytes_in(limits.path_in_flight_least_time));
  const std::uint64_t busy = std::min(bytes_in(limits.path_in_flight_time), most);
  return std::max<std::uint64_t>(limits.path_in_flight_min, busy + bytes_in(path.min_rtt));
}

bool is_full(const StripeCandidate& path, std::uint32_t bytes, const SessionLimits& limits) {
  return path.in_flight_bytes != 0 && path.in_flight_bytes + bytes > in_flight_max(path, limits);
}

std::optional<std::size_t> choose_path(std::span<const StripeCandidate> paths, std::uint32_t bytes,
                                       const SessionLimits& limits, Instant now, std::size_t home) {
  // Seconds. Finishes closer than this count as equal, so that small messages stay on one path.
  constexpr double kResolution = 20e-6;
  std::optional<std::size_t> best;
  double best_finish = 0;
  for (std::size_t turn = 0; turn < paths.size(); ++turn) {
    const std::size_t i = (home + turn) % paths.size();
    const StripeCandidate& path = paths[i];
    const bool avoided = paths.size() > 1 && path.in_flight_bytes == 0 && now >= path.try_at;
    if (avoided && bytes >= RateMeter::kChunkMin) return i;
    const double finish = static_cast<double>(path.in_flight_bytes + bytes) / path.rate_bytes_s * path.distance_weight;
    if (!best || finish + kResolution < best_finish) {
      best = i;
      best_finish = finish;
    }
  }
  if (!best) return std::nullopt;
  if (is_full(paths[*best], bytes, limits)) return std::nullopt;
  return best;
}

}  // namespace r2ccl
