#include "session/path.h"

#include <algorithm>

namespace r2ccl {

const char* to_text(PathState state) {
  switch (state) {
    case PathState::kClosed:
      return "closed";
    case PathState::kOpening:
      return "opening";
    case PathState::kUp:
      return "up";
    case PathState::kProbation:
      return "probation";
    case PathState::kSuspect:
      return "suspect";
    case PathState::kFencing:
      return "fencing";
    case PathState::kDrained:
      return "drained";
  }
  return "?";
}

namespace {

constexpr std::uint64_t kSampleBytes = 256 * 1024;   // enough to judge by, however fast
constexpr std::uint64_t kSampleBytesMin = 4 * 1024;  // below this a sample says more about latency than about rate
constexpr Duration kSampleTime = 10ms;

}  // namespace

void RateMeter::on_sent(Instant now, std::uint64_t in_flight_before) {
  if (in_flight_before != 0) return;
  busy_since_ = now;
  busy_bytes_ = 0;
}

void RateMeter::on_acked(Instant now, std::uint64_t bytes, std::uint64_t in_flight_after) {
  busy_bytes_ += bytes;
  const Duration busy = now - busy_since_;
  const bool enough = busy_bytes_ >= kSampleBytes || (busy >= kSampleTime && busy_bytes_ >= kSampleBytesMin);
  if (enough && busy > Duration::zero()) {
    const double sample = static_cast<double>(busy_bytes_) / to_seconds(busy);
    rate_ = measured_ ? 0.75 * rate_ + 0.25 * sample : sample;
    measured_ = true;
    busy_since_ = now;
    busy_bytes_ = 0;
  }
  if (in_flight_after == 0) busy_bytes_ = 0;
}

}  // namespace r2ccl
