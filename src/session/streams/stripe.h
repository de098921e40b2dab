#pragma once
// Chooses the path for a chunk: the one that will finish it first. Pure functions.

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

// How many unsent and unacknowledged bytes a path may hold: enough to keep it busy, little enough that control frames
// do not wait.
std::uint64_t in_flight_max(const StripeCandidate& path, const SessionLimits& limits);

// True: the path holds so much that `bytes` more should wait. An idle path is never full.
bool is_full(const StripeCandidate& path, std::uint32_t bytes, const SessionLimits& limits);

// The index of the path that finishes `bytes` first. Nothing: that path is full, and waiting for it beats any other.
// A path that has been avoided for long gets the chunk instead, if the chunk is large enough to tell a rate, so that
// its estimate recovers. Ties go to the first path from number `home` on, in a circle, so that small messages stay on
// one path; `home` may be larger than the number of paths.
std::optional<std::size_t> choose_path(std::span<const StripeCandidate> paths, std::uint32_t bytes,
                                       const SessionLimits& limits, Instant now, std::size_t home);

}  // namespace r2ccl
