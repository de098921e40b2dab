// Endurance on real interfaces, in short: the long ones are `r2ccl soak`.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lab/command.h"

namespace r2ccl::lab_tests {
namespace {

TEST(LabSoak, RandomFaultsMakeNothingWrong) {
  const std::string name = fresh_name();
  const std::vector<std::string> before = traces(name);
  const Ran ran = tool(fmt::format("soak --minutes 0.15 --servers 3 --nics 3 --name {} --json 2>/dev/null", name));
  EXPECT_EQ(ran.status, 0) << ran.out;
  const auto figures = apps::parse_json(ran.out);
  ASSERT_TRUE(figures.is_object()) << ran.out;
  EXPECT_EQ(figures["wrong"], 0);
  EXPECT_GE(figures["operations"], 10);
  EXPECT_GE(figures["faults"], 2);
  for (const char* key : {"bytes", "worst_stall_ms", "rss_growth_bytes", "fd_growth"})
    EXPECT_TRUE(figures.contains(key)) << key;
  EXPECT_EQ(traces(name), before);
}

// Outside the failure model: nothing is left to go on with, and the error says who is gone.
TEST(LabSoak, WhereNoNicIsLeftTheServerIsNamed) {
  const std::string name = fresh_name();
  const Ran ran =
      tool(fmt::format("lab run --name {} --servers 2 --nics 2 --fault 'at=op:5 server=1 nic=0 kind=cable' "
                       "--fault 'at=op:5 server=1 nic=1 kind=cable' -- env R2CCL_PEER_TIMEOUT=2s {} perf "
                       "all_reduce -b 4M -e 4M -n 40 2>&1",
                       name, tool_path()));
  EXPECT_EQ(ran.status, 1) << ran.out;
  EXPECT_THAT(ran.out, testing::ContainsRegex("rank 1 .*no sign of life for 2.0 s on any NIC .eth0, eth1.")) << ran.out;
}

}  // namespace
}  // namespace r2ccl::lab_tests
