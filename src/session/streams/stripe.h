#pragma once
// Which path a chunk takes: the one that will finish it first. Pure.

#include <cstdint>
#include <optional>
#include <span>

#include "base/time.h"
#include "session/limits.h"

namespace r2ccl {

struct StripeCandidate {
  double rate_bytes_s = 0;
  double distance_weight = 1.0;
  std::uint64_t in_flight_bytes = 0;
  Duration min_rtt{};
  Instant try_at{};  // RateMeter::try_at()
};

// Unsent and unacknowledged bytes a path may hold: enough to keep it busy, little enough that control frames do not wait.
std::uint64_t in_flight_max(const StripeCandidate& path, const SessionLimits& limits);

// It must not get so many bytes more: they should wait.
bool is_full(const StripeCandidate& path, std::uint32_t bytes, const SessionLimits& limits);

// The index of the path that finishes `bytes` first. Nothing: that path is full and waiting for it beats any other. A path that
// has been avoided for long gets the chunk instead, if it tells a rate, so that its estimate recovers. Ties go to the first one from
// `home` on, in a circle: small messages stay there. Homes may exceed the number of paths: they count round.
std::optional<std::size_t> choose_path(std::span<const StripeCandidate> paths, std::uint32_t bytes,
                                       const SessionLimits& limits, Instant now, std::size_t home);

}  // namespace r2ccl
