// The demo in a lab of its own: real faults, and nothing is left behind.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lab/command.h"

namespace r2ccl::lab_tests {
namespace {

TEST(LabDemo, RealFaultsAreRepairedAndTheLabIsRemoved) {
  const std::string name = fresh_name();
  const std::vector<std::string> before = traces(name);
  const Ran ran = tool(fmt::format("demo --name {} --seconds 7 --rate 100mbit --bytes 1M --json 2>&1", name));
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_EQ(traces(name), before);
  const auto summary = apps::parse_json(ran.out);
  ASSERT_TRUE(summary.is_object()) << ran.out;
  EXPECT_TRUE(summary["lab"]);
  EXPECT_EQ(summary["wrong"], 0);
  ASSERT_EQ(summary["faults"].size(), 3u);
  for (const auto& fault : summary["faults"]) {
    EXPECT_TRUE(fault["mended"]) << fault.dump();
    EXPECT_TRUE(fault["repaired_ms"].is_number()) << fault.dump();
  }
  for (const int nic : {0, 1}) EXPECT_LT(summary["faults"][nic]["share_during"], 0.05) << "nothing passes a cut cable";
}

TEST(LabDemo, WhereThereIsSuchALabItRunsOnLoopbackAndSaysWhy) {
  const Lab taken("--servers 1 --nics 1");
  const Ran ran =
      tool(fmt::format("demo --name {} --seconds 3 --servers 2 --nics 2 --rate 80mbit --bytes 256K "
                       "--fault 'at=1s server=0 nic=1 kind=cable for=1s' 2>&1",
                       taken.name()));
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, testing::HasSubstr("Loopback NICs, faults are injected inside the library"));
  EXPECT_THAT(ran.out, testing::HasSubstr(taken.name()));
}

// Killed at any moment, the demo leaves nothing: its keeper removes the lab. The keeper holds a pipe open, so the test
// can wait for its end.
TEST(LabDemo, KilledItCleansUp) {
  const std::string name = fresh_name();
  const std::vector<std::string> before = traces(name);
  const Ran ran =
      tool(fmt::format("demo --name {} --seconds 60 2>&1 & pid=$!; "
                       "for i in $(seq 200); do [ -e /run/netns/r2ccl-{}-s3 ] && break; sleep 0.05; done; "
                       "[ -e /run/netns/r2ccl-{}-s3 ] || exit 3; kill -KILL $pid; wait $pid; exit 0",
                       name, name, name));
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_EQ(traces(name), before);
}

}  // namespace
}  // namespace r2ccl::lab_tests
