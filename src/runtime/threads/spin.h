#pragma once
// Whether waiting is worth spinning. Pure: told how spins ended, says whether the next wait should begin with one.
//
//   a spin found something in time          spin again
//   found long after its time               somebody else had the processor meanwhile: sleep the next kSkipMax waits
//   three spins in a row found nothing      sleep the next 32 waits, then try once; again nothing: twice as many, at most kSkipMax
//
// A thread that sleeps is woken before those that compute, a thread that spins is preempted like them: with more work than
// processors spinning loses, with a processor to itself it saves the wake-up.

#include <algorithm>
#include <cstdint>
#include <thread>

#include "base/time.h"

namespace r2ccl {

// Between two looks of a spinning thread that has looked so often: at first leaves the core's other thread its due, then lets other
// threads run. A thread that goes on without yielding keeps the processor from the one it waits for, where there are not enough.
inline void relax(int looks) {
  constexpr int kPatient = 50;  // a microsecond or two
  if (looks > kPatient) return std::this_thread::yield();
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

inline unsigned processors() {
  return std::thread::hardware_concurrency();
}

class SpinChoice final {
 public:
  static constexpr std::uint32_t kSkipMin = 32;
  static constexpr std::uint32_t kSkipMax = 1024;
  static constexpr int kMissesMax = 3;
  static constexpr int kLateFactor = 10;

  // Asked once at the beginning of a wait.
  bool spin() {
    if (skip_ == 0) return true;
    --skip_;
    return false;
  }
  void on_found(Duration after, Duration spin_time) {
    if (after > kLateFactor * spin_time) {
      skip_ = kSkipMax;
      return;
    }
    misses_ = 0;
    next_skip_ = kSkipMin;
  }
  void on_missed() {
    if (++misses_ < kMissesMax) return;
    misses_ = kMissesMax - 1;
    skip_ = next_skip_;
    next_skip_ = std::min(2 * next_skip_, kSkipMax);
  }

 private:
  std::uint32_t skip_ = 0;  // waits that go straight to sleep
  std::uint32_t next_skip_ = kSkipMin;
  int misses_ = 0;
};

}  // namespace r2ccl
