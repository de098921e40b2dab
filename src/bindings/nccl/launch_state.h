#pragma once
// Launches and host streams, which call_batch.cc and entry/host_stream.cc share. One lock guards all of it.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "bindings/nccl/call_batch.h"

namespace r2ccl::bindings {

struct Launch {
  struct Part {
    MemberPtr member;
    std::vector<Call> calls;
    TicketPtr ticket;
    Outcome outcome;
  };
  std::vector<Part> parts;
  std::vector<std::shared_ptr<Launch>> after;  // must have begun before this one begins
  std::size_t streams_missing = 0;             // have not come to it yet; the null stream counts as one
  bool begun = false;
  bool done = false;
  Outcome outcome;  // first failure of its parts
};

// Guards every launch's flags and every stream's queue. One for all: launches are few and the lock is held for moments.
struct LaunchLock {
  std::mutex mutex;
  std::condition_variable changed;
};
LaunchLock& launch_lock();

// Comes to the launch as one of its streams: the last one to come runs it, the others wait until it is done.
void arrive(const std::shared_ptr<Launch>& launch);

class HostStream final {
 public:
  HostStream();
  ~HostStream();  // waits for what is queued

  void push(std::shared_ptr<Launch> launch);  // with the lock held
  bool idle();
  Outcome wait();        // waits until it is idle; answers the first failure since the last look
  Outcome take_error();  // answers that without waiting

 private:
  void run();
  std::deque<std::shared_ptr<Launch>> queue_;  // its front runs
  bool stop_ = false;
  Outcome error_;
  std::thread thread_;
};

}  // namespace r2ccl::bindings
