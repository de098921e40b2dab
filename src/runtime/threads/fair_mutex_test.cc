// A mutex that is given in the order of asking.

#include "runtime/threads/fair_mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace r2ccl {
namespace {

TEST(FairMutex, OneHolderAtATime) {
  FairMutex mutex;
  std::uint64_t counted = 0;  // torn if two count at once
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        const std::lock_guard guard(mutex);
        ++counted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counted, 20'000u);
  EXPECT_FALSE(mutex.wanted());
}

TEST(FairMutex, IsGivenInTheOrderOfAsking) {
  FairMutex mutex;
  std::vector<int> order;
  std::vector<std::thread> threads;
  mutex.lock();
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::lock_guard guard(mutex);
      order.push_back(t);
    });
    while (mutex.waiters() <= t) std::this_thread::yield();
  }
  EXPECT_TRUE(mutex.wanted());
  mutex.unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3}));
}

TEST(FairMutex, TryingNeverWaits) {
  FairMutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

}  // namespace
}  // namespace r2ccl
