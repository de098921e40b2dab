#include "executor/receipts.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace r2ccl {
namespace {

// Against a plain set, in random orders.
TEST(Receipts, AWaitIsOverWhenNothingOfItsIterationsIsOpen) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    Receipts receipts;
    std::set<std::pair<Iteration, std::uint64_t>> open;
    const auto inner_count = static_cast<std::uint32_t>(1 + random() % 5);
    std::uint32_t next = 0;
    Iteration first{};
    Iteration last{};
    std::uint64_t known = 0;
    for (int i = 0; i < 200; ++i) {
      if (random() % 2 == 0 || open.empty()) {
        const Iteration iteration{next / inner_count, next % inner_count};
        ++next;
        if (random() % 3 != 0) open.emplace(iteration, receipts.add(iteration));
      } else {
        const auto one = std::next(open.begin(), static_cast<std::ptrdiff_t>(random() % open.size()));
        receipts.received(one->second);
        open.erase(one);
      }
      if (random() % 8 == 0) {  // a new wait, for what was passed
        const std::uint32_t outer = static_cast<std::uint32_t>(random() % (next / inner_count + 1));
        const bool one = random() % 2 == 0;
        const auto inner = static_cast<std::uint32_t>(random() % inner_count);
        first = {outer, one ? inner : 0};
        last = {outer, one ? inner : inner_count - 1};
        known = 0;
      }
      if (last >= Iteration{next / inner_count, next % inner_count}) continue;
      const auto found = open.lower_bound({first, 0});
      EXPECT_EQ(receipts.all_in(first, last, known), found == open.end() || found->first > last);
    }
  }
}

}  // namespace
}  // namespace r2ccl
