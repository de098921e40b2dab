// `r2ccl perf` and `r2ccl run` as a user starts them: several processes, real sockets, every element checked.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "apps/r2ccl/common/json.h"
#include "tests/shell.h"

namespace r2ccl::loopback {
namespace {

Ran tool(const std::string& arguments, const std::string& settings = "") {
  return shell(fmt::format("{}{} {}", settings, R2CCL_TOOL, arguments));
}

apps::Json figures(const std::string& arguments, const std::string& settings = "") {
  const Ran ran = tool(arguments + " --json 2>/dev/null", settings);
  EXPECT_EQ(ran.status, 0) << ran.out;
  auto object = apps::parse_json(ran.out);
  EXPECT_TRUE(object.is_object()) << ran.out;
  if (!object.is_object()) return {{"rows", apps::Json::array()}, {"faults", apps::Json::array()}};
  for (const auto& row : object["rows"]) EXPECT_EQ(row["wrong"], 0) << row.dump();
  return object;
}

TEST(Perf, EverySizeIsMeasuredAndRight) {
  const auto object = figures("perf all_reduce -b 8 -e 64K --servers 2 --nics 2 -n 3 -w 1");
  ASSERT_EQ(object["rows"].size(), 28u);  // 14 sizes, out of place and in place
  std::uint64_t bytes = 8;
  for (std::size_t i = 0; i < 28; ++i) {
    const auto& row = object["rows"][i];
    EXPECT_EQ(row["bytes"], bytes);
    EXPECT_EQ(row["count"], bytes / 4);
    EXPECT_EQ(row["in_place"], i % 2 == 1);
    EXPECT_GT(row["time_us"], 0);
    EXPECT_LE(row["min_us"], row["p50_us"]);
    EXPECT_LE(row["p50_us"], row["max_us"]);
    EXPECT_DOUBLE_EQ(row["busbw_gbs"].get<double>(), row["algbw_gbs"].get<double>()) << "2(n-1)/n is 1";
    EXPECT_NE(row["algorithm"], "");
    EXPECT_EQ(row["health_version"], 0);
    if (i % 2 == 1) bytes *= 2;
  }
  EXPECT_TRUE(object["faults"].empty());
}

TEST(Perf, EveryCollectiveIsRight) {
  for (const char* name :
       {"all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "alltoall", "sendrecv"}) {
    const auto object =
        figures(fmt::format("perf {} -b 12 -e 100000 -f 90 -n 2 -w 0 --servers 3 --ranks 1 --nics 2 -r 1", name));
    EXPECT_GE(object["rows"].size(), 2u) << name;
  }
}

TEST(Perf, EveryTypeAndOperationIsRight) {
  const auto object = figures("perf all_reduce -b 4096 -e 4096 -n 1 -w 0 -d all -o all --servers 2 --ranks 2 --nics 1");
  std::set<std::string> seen;
  for (const auto& row : object["rows"]) seen.insert(row["type"].get<std::string>() + row["op"].get<std::string>());
  EXPECT_EQ(seen.size(), 12u * 6u);
}

TEST(Perf, AFaultInsideIsSurvivedAndTold) {
  const auto object = figures(
      "perf all_reduce -b 4M -e 4M -n 60 -w 0 --servers 3 --nics 3 --fault 'at=300ms server=1 nic=1 kind=down'");
  ASSERT_EQ(object["rows"].size(), 2u);
  EXPECT_GE(object["rows"][1]["health_version"], 1) << "the collectives were planned again";
  ASSERT_EQ(object["faults"].size(), 1u);
  const auto& fault = object["faults"][0];
  EXPECT_EQ(fault["server"], 1);
  EXPECT_EQ(fault["nic"], 1);
  EXPECT_EQ(fault["kind"], "down");
  EXPECT_GE(fault["noticed_ms"], fault["at_ms"]);
  EXPECT_GE(fault["repaired_ms"], fault["noticed_ms"]);
}

TEST(Perf, TheNicThatAModeOfTheFirstR2cclLosesIsTold) {
  const auto object = figures("perf all_reduce -b 4M -e 4M -n 5 -w 0 --servers 3 --nics 3", "R2CC_MODE=1 ");
  ASSERT_EQ(object["rows"].size(), 2u);
  EXPECT_EQ(object["rows"][1]["health_version"], 0) << "repair alone: it is not planned again";
  ASSERT_EQ(object["faults"].size(), 1u);
  const auto& fault = object["faults"][0];
  EXPECT_EQ(fault["server"], 0);
  EXPECT_EQ(fault["nic"], 1);
  EXPECT_EQ(fault["kind"], "cable");
  EXPECT_TRUE(fault["at_ms"].is_number());
  EXPECT_TRUE(fault["returned_ms"].is_null());
}

TEST(Perf, RunIsALauncherForItself) {
  const Ran ran =
      tool(fmt::format("run --servers 2 --ranks 2 --nics 1 -- {} perf all_reduce -b 8 -e 8 -n 2", R2CCL_TOOL));
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_NE(ran.out.find(": 0 OK"), std::string::npos) << ran.out;
}

TEST(Run, RanksKnowTheirPlaceAndTheirStatusIsPassedOn) {
  const Ran ran = tool("run --servers 2 --ranks 2 -- sh -c 'echo rank $RANK of $WORLD_SIZE on $R2CCL_SERVER'");
  EXPECT_EQ(ran.status, 0) << ran.out;
  for (const char* line : {"rank 0 of 4 on 0\n", "rank 1 of 4 on 0\n", "rank 2 of 4 on 1\n", "rank 3 of 4 on 1\n"})
    EXPECT_NE(ran.out.find(line), std::string::npos) << ran.out;
  EXPECT_EQ(tool("run --servers 2 -- sh -c 'exit $((RANK * 5))'").status, 5);
  const Ran outer =
      shell("NCCL_COMM_ID=10.0.0.1:1 " R2CCL_TOOL " run --servers 1 -- sh -c 'echo ${NCCL_COMM_ID-none}'");
  EXPECT_EQ(outer.out, "none\n")
      << "an outer job's place is taken away; other libraries would take an empty one for one";
  const Ran missing = tool("run --servers 1 -- /no/such/program 2>&1");
  EXPECT_EQ(missing.status, 127);
  EXPECT_NE(missing.out.find("'/no/such/program' can not be started"), std::string::npos) << missing.out;
}

}  // namespace
}  // namespace r2ccl::loopback
