#include "executor/pool.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

TEST(Pool, WhatWasGivenBackIsTakenAgain) {
  Pool pool;
  Pool::Block block = pool.take(100'000);
  EXPECT_GE(block.bytes, 100'000U);
  const std::byte* memory = block.memory.get();
  const std::size_t bytes = block.bytes;
  pool.give_back(std::move(block));
  EXPECT_EQ(pool.idle_bytes(), bytes);
  const Pool::Block again = pool.take(60'000);
  EXPECT_EQ(again.memory.get(), memory);
  EXPECT_EQ(pool.idle_bytes(), 0U);
}

TEST(Pool, TheSmallestThatFitsIsTakenAndNoneThatIsFarTooLarge) {
  Pool pool;
  Pool::Block small = pool.take(10'000);
  Pool::Block middle = pool.take(20'000);
  Pool::Block large = pool.take(1'000'000);
  const std::byte* memory = middle.memory.get();
  pool.give_back(std::move(large));
  pool.give_back(std::move(middle));
  pool.give_back(std::move(small));
  EXPECT_EQ(pool.take(15'000).memory.get(), memory);
  EXPECT_EQ(pool.idle_bytes(), 1'010'000U);
  EXPECT_EQ(pool.take(100'000).bytes, 100'000U);
  EXPECT_EQ(pool.idle_bytes(), 1'010'000U);
}

TEST(Pool, AboveTheLimitTheLargestGoFirst) {
  Pool pool;
  Pool::Block small = pool.take(1 << 20);
  Pool::Block large = pool.take(Pool::kIdleBytesMax);
  pool.give_back(std::move(large));
  EXPECT_EQ(pool.idle_bytes(), Pool::kIdleBytesMax);
  pool.give_back(std::move(small));
  EXPECT_EQ(pool.idle_bytes(), std::size_t{1} << 20);
  pool.give_back({});
  EXPECT_EQ(pool.idle_bytes(), std::size_t{1} << 20);
}

}  // namespace
}  // namespace r2ccl
