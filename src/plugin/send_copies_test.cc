// Goal: copies have the bytes, are bounded, and their memory is used again.

#include "plugin/send_copies.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace r2ccl::plugin {
namespace {

TEST(SendCopies, HaveTheBytes) {
  SendCopies copies;
  for (const std::size_t length : {std::size_t{0}, std::size_t{8}, std::size_t{40'000}, SendCopies::kLengthMax}) {
    const Bytes bytes(length, std::byte{5});
    SendCopy* const copy = copies.make(bytes, 3);
    ASSERT_NE(copy, nullptr) << length;
    EXPECT_EQ(copy->tag, 3u);
    EXPECT_TRUE(std::ranges::equal(copy->memory.bytes().first(copy->length), bytes)) << length;
  }
  EXPECT_EQ(copies.make(Bytes(SendCopies::kLengthMax + 1), 3), nullptr);
}

TEST(SendCopies, AreBoundedByBytesAndNumber) {
  SendCopies copies;
  const Bytes longest(SendCopies::kLengthMax), one(1);
  std::vector<SendCopy*> made;
  while (SendCopy* const copy = copies.make(longest, 0)) made.push_back(copy);
  EXPECT_EQ(made.size(), SendCopies::kBytesMax / SendCopies::kLengthMax);
  EXPECT_EQ(copies.make(one, 0), nullptr);
  copies.give_back(*made.back());
  EXPECT_EQ(copies.make(longest, 0), made.back()) << "memory is used again";
  copies.give_back(*made.front());
  std::size_t small = 0;
  while (copies.make(one, 0) != nullptr) ++small;
  EXPECT_EQ(small, SendCopies::kCountMax);
}

}  // namespace
}  // namespace r2ccl::plugin
