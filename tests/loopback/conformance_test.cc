// Every collective, type and operation over real sockets, healthy and with NICs that come and go, in every mode.

#include "tests/loopback/support/conformance.h"

#include <gtest/gtest.h>

#include "base/sanitized.h"
#include "tests/loopback/support/ranks.h"

namespace r2ccl::loopback {
namespace {

void conform_all(const RanksPlan& plan, std::uint64_t first_seed, std::uint32_t calls, std::uint64_t count_max) {
  run_ranks(plan, [&](Comm& comm, World&) {
    for (std::uint32_t i = 0; i < cases(calls) && !testing::Test::HasFatalFailure(); ++i)
      conform(comm, first_seed + i, count_max);
  });
}

class Conformance : public testing::TestWithParam<std::uint32_t> {};

TEST_P(Conformance, Healthy) {
  RanksPlan plan;
  plan.ranks = GetParam();
  conform_all(plan, 1000 * GetParam(), 400, 20'000);
}

TEST_P(Conformance, WithFaults) {
  RanksPlan plan;
  plan.ranks = GetParam();
  plan.nics = 3;
  plan.faults = {"at=20ms server=0 nic=1 kind=down for=300ms", "at=60ms server=0 nic=2 kind=reset",
                 "at=120ms server=0 nic=0 kind=blackhole for=400ms"};
  if (GetParam() > 1) plan.faults.push_back("at=40ms server=1 nic=0 kind=flap:30ms for=300ms");
  if (GetParam() > 2) plan.faults.push_back("at=90ms server=2 nic=2 kind=cable for=500ms");
  conform_all(plan, 100'000 + 1000 * GetParam(), 400, 60'000);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Conformance, testing::Values(1, 2, 3, 4, 5, 8), testing::PrintToStringParamName());

class ConformanceOfMode : public testing::TestWithParam<const char*> {};

TEST_P(ConformanceOfMode, WithAFaultThatLasts) {
  RanksPlan plan;
  plan.ranks = 4;
  plan.nics = 4;
  plan.config.mode = GetParam();
  plan.faults = {"at=30ms server=2 nic=3 kind=down"};
  conform_all(plan, 200'000, 250, 40'000);
}

INSTANTIATE_TEST_SUITE_P(All, ConformanceOfMode,
                         testing::Values("off", "repair", "balance", "r2", "optcc", "direct", "trees", "auto"),
                         [](const auto& mode) { return std::string(mode.param); });

// Runs all ranks on one server; returns whether the last of their calls went through shared memory.
void conform_on_one_server(std::uint32_t ranks, std::vector<std::string> settings, bool shared) {
  RanksPlan plan;
  plan.ranks = ranks;
  plan.per_server = ranks;
  plan.settings = std::move(settings);
  run_ranks(plan, [&](Comm& comm, World&) {
    for (std::uint32_t i = 0; i < cases(300) && !testing::Test::HasFatalFailure(); ++i)
      conform(comm, 400'000 + i, shared ? 200'000 : 20'000);
    EXPECT_EQ(comm.plan_in_use().algorithm == "shared_memory", shared);
  });
}

TEST(ConformanceOfShape, RanksOfOneServerShareMemory) {
  conform_on_one_server(2, {}, true);
  conform_on_one_server(5, {}, true);
}

TEST(ConformanceOfShape, RanksOfOneServerCanDoWithoutSharedMemory) {
  conform_on_one_server(2, {"R2CCL_SHM=off"}, false);
}

TEST(ConformanceOfShape, RanksOfAServerShareNics) {
  RanksPlan plan;
  plan.ranks = 6;
  plan.per_server = 3;
  plan.faults = {"at=30ms server=1 nic=1 kind=down for=200ms"};
  conform_all(plan, 300'000, 250, 20'000);
}

}  // namespace
}  // namespace r2ccl::loopback
