#pragma once
// How fast a path is: acknowledged bytes over the time it was busy. Pure: time comes in.
//
// A sample spans at least 10 ms of busy time, so that receipts that come in bursts do not look like speed; it moves the estimate
// half way down or a quarter up. Chunks too small to tell rate from latency are not counted. While nothing is acknowledged the
// estimate is bounded by what can at most have been moved since, so a path that slows down is believed at once.
//
// A path that nobody chooses is not measured either. It is worth a try ten times as long after its last chunks as those took: a healed
// path is known again soon, and one that is still slow costs a tenth of the time.

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace r2ccl {

class RateMeter final {
 public:
  static constexpr Duration kSampleTime = 10ms;
  static constexpr std::uint64_t kChunkMin = 8 * 1024;
  static constexpr int kRest = 10;  // of busy times
  static constexpr Duration kRestLeast = 1ms;
  static constexpr Duration kRestMost = 1s;

  explicit RateMeter(double first_rate_bytes_s) : rate_(first_rate_bytes_s) {}

  void on_sent(Instant now, std::uint32_t chunk_bytes);
  void on_acked(Instant now, std::uint32_t chunk_bytes);
  void on_lost(Instant now, std::uint32_t chunk_bytes);  // the chunk came by other ways, or not at all
  void on_cut(Instant now);                              // everything under way is lost
  double rate_bytes_s(Instant now) const;
  Instant try_at() const { return try_at_; }                           // unless something is under way
  std::optional<Instant> measured_at() const { return measured_at_; }  // last; none: the rate is assumed

 private:
  Duration busy_time(Instant now) const;
  void done(Instant now, std::uint32_t chunk_bytes);

  double rate_;
  std::optional<Instant> measured_at_;
  std::uint64_t under_way_ = 0;
  std::uint64_t acked_ = 0;  // since the last sample
  Duration busy_{};          // before busy_since_
  Instant busy_since_{};     // while something is under way
  Instant begun_{};          // when it became busy
  Instant try_at_{};
};

}  // namespace r2ccl
