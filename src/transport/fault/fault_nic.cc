#include "transport/fault/fault_nic.h"

#include <algorithm>

namespace r2ccl {

void TokenBucket::start(Instant now, std::uint64_t rate_bytes_s, std::size_t burst_bytes) {
  rate_bytes_s_ = static_cast<double>(rate_bytes_s);
  burst_ = static_cast<double>(burst_bytes);
  tokens_ = burst_;
  filled_at_ = now;
}

void TokenBucket::refill(Instant now) {
  if (now <= filled_at_) return;
  tokens_ = std::min(burst_, tokens_ + rate_bytes_s_ * to_seconds(now - filled_at_));
  filled_at_ = now;
}

Instant TokenBucket::next() const {
  if (!empty() || rate_bytes_s_ <= 0) return filled_at_;
  constexpr double kWaitMaxSeconds = 3600;
  const double seconds = std::min(kWaitMaxSeconds, (1 - tokens_) / rate_bytes_s_);
  return filled_at_ + Duration(static_cast<Duration::rep>(seconds * 1e9) + 1);
}

}  // namespace r2ccl
