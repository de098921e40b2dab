// Control of a job that met at a place on a network of its own: it survives that network, and goes back.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>

#include "sim/net/scenario.h"

namespace r2ccl::sim {
namespace {

constexpr std::size_t kProcesses = 4;
constexpr std::uint8_t kManagement = 2;  // behind the data NICs 0 and 1

struct Step {
  double at = 0;  // seconds
  std::string nic;
};
using Ways = std::map<std::size_t, std::vector<Step>>;  // by process, which NIC control went from and since when

// Every process sends to every other one, at the beginning and at the end.
Scenario job(Duration until) {
  Scenario scenario;
  scenario.seed = 11;
  scenario.processes = kProcesses;
  scenario.data_nics = kManagement;
  scenario.scheduling = {.delay_min = 2us, .delay_max = 20us, .step_cost = 1us};
  for (std::uint8_t from = 0; from < kProcesses; ++from) {
    for (std::uint8_t to = 0; to < kProcesses; ++to) {
      if (from == to) continue;
      for (const Duration at : {Duration{1ms}, until})
        scenario.messages.push_back(
            {.from = from, .to = to, .bytes = 10000, .posted_bytes = 10000, .tag = 3, .send_at = at, .receive_at = at});
    }
  }
  return scenario;
}

PlannedFault lost_for(std::uint8_t nic, Duration at, Duration lasts) {
  return {.kind = SimFaultKind::kBlackHole, .at = at, .lasts = lasts, .nic = {0, nic}};
}
PlannedFault lost(std::uint8_t nic, Duration at) {
  return {.kind = SimFaultKind::kNicLost, .at = at, .nic = {0, nic}};
}

// Runs the scenario and reads from the log which way control goes.
Ways ways_of(Scenario scenario) {
  Ways ways;
  scenario.trace = [&](const std::string& line) {
    const auto at = line.find("log: Control goes from NIC ");
    const auto process = line.find(" process ");
    if (at == std::string::npos || process == std::string::npos) return;
    const std::string rest = line.substr(at + std::string("log: Control goes from NIC ").size());
    ways[std::stoul(line.substr(process + 9))].push_back({std::stod(line), rest.substr(0, rest.find(' '))});
  };
  const RunReport report = run_scenario(scenario);
  EXPECT_TRUE(report.ok) << fmt::format("{}", fmt::join(report.violations, "; "));
  EXPECT_EQ(ways.count(0), 0u) << "the root is reached without a network";
  EXPECT_EQ(ways.size(), kProcesses - 1);
  return ways;
}

std::vector<std::string> nics_of(const std::vector<Step>& steps) {
  std::vector<std::string> nics;
  for (const Step& step : steps) nics.push_back(step.nic);
  return nics;
}
using Names = std::vector<std::string>;

TEST(Meeting, ControlGoesToThePlaceAndStaysThereWhileItLives) {
  Scenario scenario = job(20s);
  scenario.plan.faults = {lost_for(0, 2s, 5s)};
  for (const auto& [process, steps] : ways_of(scenario)) EXPECT_EQ(nics_of(steps), Names{"sim2"}) << process;
}

TEST(Meeting, ControlLeavesADeadManagementNetworkAndGoesBack) {
  Scenario scenario = job(25s);
  scenario.plan.faults = {lost_for(kManagement, 1s, 10s)};
  for (const auto& [process, steps] : ways_of(scenario)) {
    ASSERT_EQ(nics_of(steps), (Names{"sim2", "sim0", "sim2"})) << process;
    EXPECT_LT(steps[1].at, 1 + 4.5) << "three seconds of silence, then the next way";
    EXPECT_GT(steps[2].at, 1 + 10.0);
    EXPECT_LT(steps[2].at, 1 + 10 + 3.5) << "tried again every two seconds";
  }
}

TEST(Meeting, ControlStaysOnDataNicsWhereTheManagementNetworkIsDeadForGood) {
  Scenario scenario = job(25s);
  scenario.plan.faults = {lost(kManagement, 1s)};
  for (const auto& [process, steps] : ways_of(scenario)) EXPECT_EQ(nics_of(steps), (Names{"sim2", "sim0"})) << process;
}

TEST(Meeting, ControlGoesOnOverTheNextDataNicAndThenBack) {
  Scenario scenario = job(35s);
  scenario.plan.faults = {lost_for(kManagement, 1s, 20s), lost(0, 7s)};
  for (const auto& [process, steps] : ways_of(scenario)) {
    ASSERT_GE(steps.size(), 3u) << process;
    EXPECT_EQ(nics_of(steps).front(), "sim2") << process;
    EXPECT_EQ(steps[1].nic, "sim0") << process;
    EXPECT_EQ(steps.back().nic, "sim2") << process;
    EXPECT_GT(steps.back().at, 21.0) << process;
  }
}

// The other way round: control was on data NICs, and all of them die.
TEST(Meeting, ControlGoesBackWhenAllDataNicsOfTheRootDie) {
  Scenario scenario = job(30s);
  scenario.plan.faults = {lost_for(kManagement, 1s, 7s), lost_for(0, 7s, 12s), lost_for(1, 7s, 12s)};
  for (const auto& [process, steps] : ways_of(scenario)) {
    ASSERT_GE(steps.size(), 3u) << process;
    EXPECT_EQ(steps[1].nic, "sim0") << process;
    EXPECT_EQ(steps.back().nic, "sim2") << process;
    EXPECT_LT(steps.back().at, 1 + 7 + 7 + 3.0) << "long before any data NIC is back";
  }
}

// Whoever has registered knows the root's other addresses, so the rest of the job can still come together.
TEST(Meeting, WhoHasRegisteredNeedsThePlaceNoMore) {
  Scenario scenario = job(20s);
  scenario.early_faults = true;
  scenario.plan.faults = {{.kind = SimFaultKind::kPause, .at = 0s, .lasts = 8s, .nic = {3, 0}},
                          {.kind = SimFaultKind::kBlackHole, .at = 2s, .lasts = 100s, .nic = {1, kManagement}}};
  const Ways ways = ways_of(scenario);
  EXPECT_EQ(nics_of(ways.at(1)), (Names{"sim2", "sim0"}));
  EXPECT_EQ(nics_of(ways.at(2)), Names{"sim2"});
  EXPECT_EQ(ways.at(3).back().nic, "sim2");
  EXPECT_GT(ways.at(3).front().at, 8.0) << "the last came long after the first had lost its way";
}

}  // namespace
}  // namespace r2ccl::sim
