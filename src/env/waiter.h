#pragma once

#include "base/time.h"

namespace r2ccl {

// How a driver sleeps until there is something to do. The TCP dialer implements it with its epoll, tests with a
// condition variable.
//
// wait() returns when something is ready, at `until`, or after a wake(); a wake() before the wait() counts too.
//
// Threads    All three may be called from any thread, in several at once, and beside any other use of the dialer.
class Waiter {
 public:
  virtual ~Waiter() = default;
  virtual bool poll() = 0;  // true: something is ready now
  virtual void wait(Instant now, Instant until) = 0;
  virtual void wake() = 0;  // from any thread
};

}  // namespace r2ccl
