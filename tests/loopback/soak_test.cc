// `r2ccl soak` without root: injected faults on loopback NICs.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/r2ccl/common/json.h"
#include "tests/shell.h"

namespace r2ccl {
namespace {

TEST(Soak, RandomFaultsMakeNothingWrong) {
  const Ran ran = shell(R2CCL_TOOL " soak --minutes 0.1 --servers 2 --ranks 2 --nics 3 --loopback --json 2>/dev/null");
  EXPECT_EQ(ran.status, 0) << ran.out;
  const auto figures = apps::parse_json(ran.out);
  ASSERT_TRUE(figures.is_object()) << ran.out;
  EXPECT_EQ(figures["wrong"], 0);
  EXPECT_GE(figures["operations"], 10);
  EXPECT_GE(figures["faults"], 1);
}

}  // namespace
}  // namespace r2ccl
