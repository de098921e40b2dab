#pragma once
// Decides whether a wait should begin with spinning. With a processor to itself, a thread that spins saves the wake-up.
// With more threads than processors it loses: the system wakes a sleeping thread ahead of those that compute, but
// preempts a spinning one like them. So we try, and look at how the tries end. Pure; it is told how spins ended.
//
//   a spin found something in time       spin again
//   it found something long after that   another thread had the processor: sleep the next kSkipMax waits
//   three in a row found nothing         sleep the next kSkipMin waits, then try once; if that finds nothing, sleep
//                                        twice as many, up to kSkipMax

#include <algorithm>
#include <cstdint>
#include <thread>

#include "base/time.h"

namespace r2ccl {

// For between two looks of a thread that spins and has looked so often. The first spins use PAUSE, so a hyper-thread
// sibling keeps its share of the core. Later ones yield: where processors are few, a thread that never yields keeps
// one from the very thread it waits for.
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
