#pragma once
// How fast a path is: acknowledged bytes over the time it was busy. Reads no clock; time is a parameter.
//
// A sample spans at least 10 ms of busy time, so that receipts that come in bursts do not look like speed. It moves
// the estimate half of the way down or a quarter of the way up. Chunks too small to tell rate from latency are not
// counted. While nothing is acknowledged, the path can not have moved more than what is under way, and that bounds the
// estimate: a path that slows down is believed at once.
//
// A path that nobody chooses is not measured either. try_at() says when it is worth a try: if its last chunks took a
// time t, 10 t later. So a healed path is known again soon, and one that is still slow costs a tenth of the time.

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace r2ccl {

class RateMeter final {
 public:
  static constexpr Duration kSampleTime = 10ms;
  static constexpr std::uint64_t kChunkMin = 8 * 1024;
  static constexpr int kRest = 10;  // times as long as it was busy
  static constexpr Duration kRestLeast = 1ms;
  static constexpr Duration kRestMost = 1s;

  explicit RateMeter(double first_rate_bytes_s) : rate_(first_rate_bytes_s) {}

  void on_sent(Instant now, std::uint32_t chunk_bytes);
  void on_acked(Instant now, std::uint32_t chunk_bytes);
  void on_lost(Instant now, std::uint32_t chunk_bytes);  // the chunk came by other ways, or not at all
  void on_cut(Instant now);                              // everything under way is lost
  double rate_bytes_s(Instant now) const;
  Instant try_at() const { return try_at_; }                           // means nothing while something is under way
  std::optional<Instant> measured_at() const { return measured_at_; }  // the last sample; none: the rate is assumed

 private:
  Duration busy_time(Instant now) const;
  void done(Instant now, std::uint32_t chunk_bytes);

  double rate_;
  std::optional<Instant> measured_at_;
  std::uint64_t under_way_ = 0;
  std::uint64_t acked_ = 0;  // since the last sample
  Duration busy_{};          // busy time of this sample before busy_since_
  Instant busy_since_{};     // set while something is under way
  Instant begun_{};          // when it last became busy
  Instant try_at_{};
};

}  // namespace r2ccl
