#include "topology/path_state.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace r2ccl {
namespace {

TEST(Cause, EachHasItsOwnText) {
  std::set<std::string> texts;
  const int count = static_cast<int>(Cause::kReplaced) + 1;
  for (int i = 0; i < count; ++i) texts.insert(to_text(static_cast<Cause>(i)));
  EXPECT_EQ(texts.size(), static_cast<std::size_t>(count));
  EXPECT_STREQ(to_text(static_cast<Cause>(200)), "unknown cause");
}

}  // namespace
}  // namespace r2ccl
