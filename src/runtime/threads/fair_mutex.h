#pragma once
// A mutex that threads get in the order in which they asked, and whose holder can see that somebody waits. A driver
// that steps an engine in a loop would take a plain mutex again before anybody else wakes up.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace r2ccl {

// Locking and unlocking is one atomic operation each, unless somebody waits.
class FairMutex final {
 public:
  void lock() {
    const std::uint64_t ticket = next_.fetch_add(1);
    if (serving_ == ticket) return;
    std::unique_lock guard(mutex_);
    waiting_.fetch_add(1, std::memory_order_relaxed);
    turn_.wait(guard, [&] { return serving_ == ticket; });
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool try_lock() {
    std::uint64_t free = serving_;
    return next_.compare_exchange_strong(free, free + 1);
  }
  void unlock() {
    // Either we see that somebody has asked, or they see that it is their turn.
    const std::uint64_t next = serving_.load(std::memory_order_relaxed) + 1;
    serving_ = next;
    if (next_ == next) return;
    // A thread that has asked reads serving_ under the lock before it waits. Taking the lock here makes sure that it
    // waits already, and will be notified, or that it will see the new value.
    {
      const std::lock_guard guard(mutex_);
    }
    turn_.notify_all();
  }
  // How many threads wait for the holder to unlock. Only a hint.
  int waiters() const { return waiting_.load(std::memory_order_relaxed); }
  bool wanted() const { return waiters() > 0; }

 private:
  std::atomic<std::uint64_t> next_ = 0;     // the next ticket
  std::atomic<std::uint64_t> serving_ = 0;  // the holder's ticket, written by the holder alone
  std::atomic<int> waiting_ = 0;
  std::mutex mutex_;  // guards only the wait
  std::condition_variable turn_;
};

}  // namespace r2ccl
