#pragma once

#include "base/time.h"

namespace r2ccl {

// Sleeps until something is ready, until `until`, or until wake(). Implemented by the TCP dialer's epoll.
// wait() changes nothing: it may run beside whatever else is done to the dialer, and in several threads at once.
// A wake() before the wait() counts.
class Waiter {
 public:
  virtual ~Waiter() = default;
  virtual void wait(Instant now, Instant until) = 0;
  virtual void wake() = 0;  // from any thread
};

}  // namespace r2ccl
