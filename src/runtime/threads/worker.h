#pragma once
// A thread for work that takes longer than a turn of an engine may: one job after another, in the order they were
// given.
//
// Threads    Any may give jobs. The thread begins with the first one: who never has work has no thread.
// Failure    Jobs throw nothing: who gave one hears of its outcome by whatever the job writes.
// End        A job that has begun is waited for; those that have not are dropped.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace r2ccl {

class Worker final {
 public:
  using Job = std::function<void()>;

  Worker() = default;
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void run(Job job);

 private:
  void work();

  std::mutex mutex_;  // guards what follows
  std::condition_variable news_;
  std::deque<Job> jobs_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace r2ccl
