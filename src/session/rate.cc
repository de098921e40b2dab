#include "session/rate.h"

#include <algorithm>

namespace r2ccl {

namespace {

constexpr double kDown = 0.5;
constexpr double kUp = 0.25;

}  // namespace

Duration RateMeter::busy_time(Instant now) const {
  return under_way_ == 0 ? busy_ : busy_ + (now - busy_since_);
}

void RateMeter::on_sent(Instant now, std::uint32_t chunk_bytes) {
  if (chunk_bytes < kChunkMin) return;
  if (under_way_ == 0) busy_since_ = begun_ = now;
  under_way_ += chunk_bytes;
}

void RateMeter::on_acked(Instant now, std::uint32_t chunk_bytes) {
  if (chunk_bytes < kChunkMin) return;
  acked_ += chunk_bytes;
  if (const Duration busy = busy_time(now); busy >= kSampleTime) {
    const double sample = static_cast<double>(acked_) / to_seconds(busy);
    const double weight = !measured_at_ ? 1.0 : sample < rate_ ? kDown : kUp;
    rate_ += weight * (sample - rate_);
    measured_at_ = now;
    acked_ = 0;
    busy_ = Duration::zero();
    busy_since_ = now;
  }
  done(now, chunk_bytes);
}

void RateMeter::on_lost(Instant now, std::uint32_t chunk_bytes) {
  if (chunk_bytes >= kChunkMin) done(now, chunk_bytes);
}

void RateMeter::done(Instant now, std::uint32_t chunk_bytes) {
  const Duration busy = busy_time(now);
  under_way_ -= std::min<std::uint64_t>(under_way_, chunk_bytes);
  if (under_way_ != 0) return;
  busy_ = busy;
  try_at_ = now + std::clamp(kRest * (now - begun_), kRestLeast, kRestMost);
}

void RateMeter::on_cut(Instant now) {
  busy_since_ = now;
  busy_ = Duration::zero();
  acked_ = under_way_ = 0;
  try_at_ = now;
}

double RateMeter::rate_bytes_s(Instant now) const {
  const Duration busy = busy_time(now);
  if (under_way_ == 0 || busy < kSampleTime) return rate_;
  return std::min(rate_, static_cast<double>(acked_ + under_way_) / to_seconds(busy));
}

}  // namespace r2ccl
