#include <gtest/gtest.h>

#include <map>
#include <set>

#include "apps/r2ccl/soak/soak_plan.h"

namespace r2ccl::apps {
namespace {

TEST(SoakPlan, AServerAlwaysHasASoundNic) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const SoakPlan plan{.servers = 3, .nics = 2, .seed = seed, .length = 300s};
    const std::vector<FaultSpec> faults = soak_faults(plan);
    for (const FaultSpec& moment : faults) {
      std::map<std::uint64_t, std::set<std::uint8_t>> broken;
      for (const FaultSpec& fault : faults) {
        if (fault.at.time <= moment.at.time && moment.at.time < fault.at.time + fault.lasting + kSoakRecovery)
          broken[fault.server.value].insert(fault.nic.value);
      }
      for (const auto& [server, nics] : broken) EXPECT_LT(nics.size(), plan.nics) << "seed " << seed;
    }
  }
}

TEST(SoakPlan, OnIsolatedRailsARailIsSoundEverywhere) {
  const SoakPlan plan{.servers = 4, .nics = 2, .length = 300s, .fabric = Fabric::kRails};
  const std::vector<FaultSpec> faults = soak_faults(plan);
  ASSERT_GT(faults.size(), 10u);
  for (std::size_t i = 1; i < faults.size(); ++i) {
    if (faults[i].nic == faults[i - 1].nic) continue;
    EXPECT_GE(faults[i].at.time, faults[i - 1].at.time + faults[i - 1].lasting + kSoakRecovery);
  }
}

TEST(SoakPlan, AllKindsComeAndAllAreOverBeforeTheEnd) {
  const SoakPlan plan{.length = 300s};
  std::set<FaultKind> kinds;
  for (const FaultSpec& fault : soak_faults(plan)) {
    kinds.insert(fault.kind);
    EXPECT_LE(fault.at.time + fault.lasting, plan.length - plan.length / 10);
    EXPECT_TRUE(parse_fault(to_text(fault))) << to_text(fault);
  }
  EXPECT_EQ(kinds.size(), 6u);
}

TEST(SoakPlan, ADayHasNoMoreFaultsThanATextHolds) {
  EXPECT_LE(soak_faults({.length = 24h}).size(), kFaultsMax);
}

TEST(SoakPlan, RanksDrawTheSameCollectives) {
  SeededRandom first(7), second(7);
  std::set<std::string_view> names;
  for (int i = 0; i < 500; ++i) {
    const PerfCase a = soak_case(first, 0, 4);
    const PerfCase b = soak_case(second, 3, 4);
    EXPECT_EQ(a.collective, b.collective);
    EXPECT_EQ(a.count, b.count);
    EXPECT_EQ(a.type, b.type);
    EXPECT_EQ(a.op.name, b.op.name);
    EXPECT_EQ(a.root, b.root);
    EXPECT_EQ(a.in_place, b.in_place);
    names.insert(a.collective->name);
  }
  EXPECT_EQ(names.size(), perf_collectives().size());
}

}  // namespace
}  // namespace r2ccl::apps
