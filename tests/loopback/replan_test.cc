// The life of a plan: a NIC goes, for good or for a while; every rank changes to the new plan with the same
// collective, and back.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "tests/loopback/support/ranks.h"

namespace r2ccl::loopback {
namespace {

constexpr int kOperationsMax = 20'000;  // of a millisecond: many seconds
// Small, so that rates are not measured: no NIC is called slow because the machine is busy.
constexpr std::size_t kCount = 1000;

void all_reduce(Comm& comm, std::size_t count) {
  std::vector<std::int32_t> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<std::int32_t>(i + comm.rank());
  const Status done = comm.run({.input = data.data(), .output = data.data(), .count = count, .type = DataType::kInt32});
  ASSERT_TRUE(done) << done.error().what;
  const auto ranks = static_cast<std::int32_t>(comm.size());
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(data[i], ranks * static_cast<std::int32_t>(i) + ranks * (ranks - 1) / 2) << i;
}

using History = std::map<std::uint64_t, std::string>;  // by operation: "version algorithm"

TEST(Replan, ANicThatComesBackBringsTheOldPlanBackAndNobodyEverMixesThem) {
  RanksPlan plan;
  plan.ranks = 4;
  plan.nics = 4;
  plan.config.mode = "r2";  // applies only to what is broken, so plans differ
  plan.settings = {"NCCL_DEBUG=VERSION", "R2CCL_RETRY_MIN=20ms", "R2CCL_PROBATION_MIN=50ms"};
  plan.faults = {"at=300ms server=2 nic=1 kind=down for=300ms"};
  std::mutex mutex;
  std::vector<History> histories(plan.ranks);
  run_ranks(plan, [&](Comm& comm, World&) {
    History mine;
    std::string first;
    std::uint64_t changed = 0;   // the version of the first other algorithm
    std::uint64_t returned = 0;  // … and of the first one after it that is as in the beginning
    // All stop after the same operation, because the plan of an operation is the same everywhere.
    for (int i = 0; returned == 0 && i < kOperationsMax && !testing::Test::HasFatalFailure(); ++i) {
      all_reduce(comm, kCount);
      const PlanInUse in_use = comm.plan_in_use();
      mine[in_use.operation] = fmt::format("{} {}", in_use.health_version, in_use.algorithm);
      if (first.empty()) first = in_use.algorithm;
      if (changed == 0 && in_use.algorithm != first) changed = in_use.health_version;
      if (changed != 0 && in_use.algorithm == first) returned = in_use.health_version;
    }
    EXPECT_GT(changed, 0u) << "it was never planned again; all the time " << first;
    EXPECT_GT(returned, changed) << "the old plan has not come back";
    const std::lock_guard lock(mutex);
    histories[comm.rank()] = std::move(mine);
  });
  for (std::uint32_t rank = 1; rank < plan.ranks; ++rank) EXPECT_EQ(histories[rank], histories[0]);
}

}  // namespace
}  // namespace r2ccl::loopback
