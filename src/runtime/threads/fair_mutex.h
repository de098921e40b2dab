#pragma once
// A mutex that is given in the order of asking, and whose holder can see that somebody waits. A driver that steps an engine in a
// loop would otherwise take a plain mutex again before anybody else wakes up.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace r2ccl {

class FairMutex final {
 public:
  void lock() {
    std::unique_lock guard(mutex_);
    const std::uint64_t ticket = next_++;
    if (ticket == serving_) return;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    turn_.wait(guard, [&] { return ticket == serving_; });
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool try_lock() {
    const std::unique_lock guard(mutex_, std::try_to_lock);
    if (!guard || next_ != serving_) return false;
    ++next_;
    return true;
  }
  void unlock() {
    const std::lock_guard guard(mutex_);
    ++serving_;
    if (serving_ != next_) turn_.notify_all();
  }
  // Somebody waits for the holder to unlock. Only a hint.
  bool wanted() const { return waiting_.load(std::memory_order_relaxed) > 0; }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  std::uint64_t next_ = 0;
  std::uint64_t serving_ = 0;
  std::atomic<int> waiting_ = 0;
};

}  // namespace r2ccl
