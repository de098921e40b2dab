#include "base/fifo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <ranges>

namespace r2ccl {
namespace {

TEST(Fifo, HoldsWhatADequeHolds) {
  std::mt19937 random(1);
  Fifo<int> fifo;
  std::deque<int> deque;
  for (int i = 0; i < 10'000; ++i) {
    const bool grows = i % 1000 < 500;
    if (random() % 10 < (grows ? 6u : 4u)) {
      EXPECT_EQ(fifo.emplace_back(), 0) << "of its default value, whatever was there before";
      fifo[fifo.size() - 1] = i;
      deque.push_back(i);
    } else if (!deque.empty()) {
      ASSERT_EQ(fifo.front(), deque.front());
      fifo.pop_front();
      deque.pop_front();
    }
    ASSERT_EQ(fifo.empty(), deque.empty());
    ASSERT_TRUE(std::ranges::equal(std::as_const(fifo), deque));
  }
  fifo.clear();
  EXPECT_EQ(fifo.size(), 0u);
}

TEST(Fifo, GivesBackWhatAnElementOwnedWhenItLeaves) {
  const auto owned = std::make_shared<int>(1);
  Fifo<std::shared_ptr<int>> fifo;
  for (int i = 0; i < 3; ++i) fifo.emplace_back() = owned;
  fifo.pop_front();
  EXPECT_EQ(owned.use_count(), 3);
  fifo.clear();
  EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace r2ccl
