#pragma once
// Says when a dead path is tried again, and when a path that answers again is trusted. A path that has failed is likely
// to fail again, so it has to prove itself, longer each time. Reads no clock; time is a parameter.
//
//   retry       100 ms after it went down, doubling to 30 s, for ever. A hint (carrier up, the peer's notice, an
//               accepted connection) starts over at 100 ms from now
//   probation   a path that went down before and answers again carries only probes for so long; if it stays clean, it
//               is up. Each relapse (down again within probation, or within `good_time` of being up) doubles probation
//               up to 60 s; each `good_time` spent up halves it, down to its minimum
//
// A session without any live path ignores probation.

#include <cstdint>

#include "base/time.h"

namespace r2ccl {

struct ComebackLimits {
  Duration retry_min = 100ms;
  Duration retry_max = 30s;
  Duration probation_min = 500ms;
  Duration probation_max = 60s;
  Duration good_time = 10s;
};

class Comeback final {
 public:
  explicit Comeback(const ComebackLimits& limits) : limits_(limits) {}

  // The path died, or is about to be opened for the first time; then the first attempt is due at once. Called again
  // before the path answered, it counts as a failed attempt.
  void on_down(Instant now);
  void on_attempt_failed(Instant now);  // doubles the wait
  void on_hint(Instant now);            // never puts off an attempt that is due earlier
  Instant next_attempt() const { return next_attempt_; }

  // The path answers again. Returns until when it is on probation (`now` when it never failed before).
  Instant on_open(Instant now);
  void on_trusted(Instant now);  // probation served, or skipped because no path was left
  Duration probation() const { return probation_; }
  int relapses() const { return relapses_; }

 private:
  void fall(Instant now);  // sets the probation for when the path comes back
  void wait_from(Instant now, Duration retry);

  enum class State : std::uint8_t { kNew, kClosed, kOpen, kTrusted };

  ComebackLimits limits_;
  State state_ = State::kNew;
  Instant next_attempt_{};
  Duration retry_{};      // zero: the next failure is followed by the shortest wait
  Duration probation_{};  // zero: never failed
  int relapses_ = 0;
  Instant trusted_since_{};
};

}  // namespace r2ccl
