#include "runtime/threads/worker.h"

#include <utility>

namespace r2ccl {

Worker::~Worker() {
  std::deque<Job> dropped;  // their captures go without the lock
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
    dropped.swap(jobs_);
  }
  news_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Worker::run(Job job) {
  {
    const std::lock_guard guard(mutex_);
    jobs_.push_back(std::move(job));
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  news_.notify_one();
}

void Worker::work() {
  std::unique_lock guard(mutex_);
  for (;;) {
    news_.wait(guard, [&] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    guard.unlock();
    job();
    job = nullptr;
    guard.lock();
  }
}

}  // namespace r2ccl
