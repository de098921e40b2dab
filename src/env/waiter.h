#pragma once

#include "base/time.h"

namespace r2ccl {

// Sleeps until something is ready, until `until`, or until wake(). Implemented by the TCP dialer's epoll.
// poll() and wait() change nothing: they may run beside whatever else is done to the dialer, and in several threads at once.
// A wake() before the wait() counts.
class Waiter {
 public:
  virtual ~Waiter() = default;
  virtual bool poll() = 0;  // true: something is ready now
  virtual void wait(Instant now, Instant until) = 0;
  virtual void wake() = 0;  // from any thread
};

}  // namespace r2ccl
