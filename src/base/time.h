#pragma once
// Time as a parameter: an Instant comes in through step(now); nothing below runtime/threads reads a clock.

#include <chrono>

namespace r2ccl {

using Duration = std::chrono::nanoseconds;

struct ClockTag {
  using rep = Duration::rep;
  using period = Duration::period;
  using duration = Duration;
  using time_point = std::chrono::time_point<ClockTag>;
  static constexpr bool is_steady = true;
};
using Instant = ClockTag::time_point;

inline constexpr Instant kNever = Instant::max();
using namespace std::chrono_literals;

inline double to_ms(Duration d) {
  return static_cast<double>(d.count()) / 1e6;
}
inline double to_seconds(Duration d) {
  return static_cast<double>(d.count()) / 1e9;
}

// What step(now) answers: whether anything moved, and when it wants to be called again if nothing happens.
struct Turn {
  bool moved = false;
  Instant next = kNever;

  void merge(const Turn& other) {
    moved |= other.moved;
    if (other.next < next) next = other.next;
  }
};

}  // namespace r2ccl
