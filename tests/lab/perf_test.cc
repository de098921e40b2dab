// Ranks in a lab: every element is right, also while NICs break for real.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/lab/command.h"

namespace r2ccl::lab_tests {
namespace {

struct Measured {
  apps::Json figures;
  std::string errors;  // what was written to stderr
};

Measured perf(const std::string& options, const std::string& arguments) {
  const std::string name = fresh_name();
  const std::vector<std::string> before = traces(name);
  const auto errors = std::filesystem::temp_directory_path() / (name + ".err");
  const Ran ran = tool(fmt::format("lab run --name {} {} -- {} perf all_reduce {} --json 2>{}", name, options,
                                   tool_path(), arguments, errors.string()));
  std::stringstream text;
  text << std::ifstream(errors).rdbuf();
  std::filesystem::remove(errors);
  EXPECT_EQ(ran.status, 0) << ran.out << text.str();
  EXPECT_EQ(traces(name), before);
  Measured measured{apps::parse_json(ran.out), text.str()};
  EXPECT_TRUE(measured.figures.is_object()) << ran.out;
  if (!measured.figures.is_object()) measured.figures = {{"rows", apps::Json::array()}};
  for (const auto& row : measured.figures["rows"]) EXPECT_EQ(row["wrong"], 0) << row.dump();
  return measured;
}

TEST(LabPerf, TwoServersExchange) {
  for (const char* fabric : {"routed", "rails"}) {
    const Measured measured =
        perf(fmt::format("--servers 2 --nics 2 --rate 500mbit --fabric {}", fabric), "-b 1M -e 4M -n 5 -w 1");
    ASSERT_EQ(measured.figures["rows"].size(), 6u);
    for (const auto& row : measured.figures["rows"])
      EXPECT_LT(row["busbw_gbs"], 0.16) << "the NICs' rate and a full bucket bound it";
  }
}

TEST(LabPerf, SeveralRanksShareTheNicsOfAServer) {
  const Measured measured = perf("--servers 2 --ranks 2 --nics 2", "-b 1M -e 1M -n 2 -w 0");
  EXPECT_EQ(measured.figures["rows"].size(), 2u);
}

// The time is long after the ranks have met and long before they are done: 120 rounds of at least 33 ms each.
TEST(LabPerf, ACablePulledInTheMiddleIsSurvived) {
  const Measured measured = perf("--servers 2 --nics 2 --rate 500mbit --fault 'at=1500ms server=0 nic=1 kind=cable'",
                                 "-b 4M -e 4M -n 60 -w 0");
  EXPECT_EQ(measured.figures["rows"].size(), 2u);
  EXPECT_THAT(measured.errors, testing::HasSubstr("server 0 nic 1: cable"));
  ASSERT_EQ(measured.figures["faults"].size(), 1u) << measured.figures.dump(2) << measured.errors;
  EXPECT_EQ(measured.figures["faults"][0]["server"], 0);
  EXPECT_EQ(measured.figures["faults"][0]["nic"], 1);
  EXPECT_EQ(measured.figures["faults"][0]["verdict"], "NIC");
}

// The test does not know the time of each round, of which there are 40 with 4 MiB; the ranks say when one begins.
TEST(LabPerf, FaultsWaitForOperationsAndBytes) {
  for (const char* at : {"op:25", "bytes:60%"}) {
    const Measured measured =
        perf(fmt::format("--servers 2 --nics 2 --rate 500mbit --fault 'at={} server=0 nic=1 kind=cable'", at),
             "-b 4M -e 4M -n 20 -w 0");
    EXPECT_THAT(measured.errors, testing::HasSubstr("server 0 nic 1: cable")) << at;
    ASSERT_EQ(measured.figures["rows"].size(), 2u);
    EXPECT_EQ(measured.figures["faults"].size(), 1u) << at << measured.figures.dump(2);
  }
}

TEST(LabPerf, EveryOtherFaultIsSurvivedToo) {
  for (const char* kind : {"down", "blackhole", "reset", "slow:50mbit", "flap:50ms"}) {
    const Measured measured =
        perf(fmt::format("--servers 2 --nics 2 --rate 500mbit --fault 'at=1s server=1 nic=0 kind={}'", kind),
             "-b 4M -e 4M -n 30 -w 0");
    EXPECT_EQ(measured.figures["rows"].size(), 2u) << kind;
    EXPECT_THAT(measured.errors, testing::HasSubstr("server 1 nic 0")) << kind;
  }
}

}  // namespace
}  // namespace r2ccl::lab_tests
