// The checker's short ways, on plans: ranks that are alike are checked by some of them, loops by fewer iterations.
// The verdict must be that of the run of all.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/check/check.h"
#include "schedule/check/check_shorten.h"
#include "schedule/check/check_symmetry.h"
#include "testing/random_cluster.h"

namespace r2ccl {
namespace {

std::optional<Symmetry> symmetry_of(const Schedule& schedule) {
  const Result<Geometry> geometry = shape_of(schedule);
  return geometry ? symmetry_of(schedule, *geometry) : std::nullopt;
}

Schedule planned(std::string_view algorithm, const Cluster& cluster, std::optional<std::uint32_t> segments = {}) {
  const Result<Plan> plan = r2ccl::plan(algorithm, {.bytes = std::uint64_t{64} << 20}, cluster, {.segments = segments});
  return plan ? plan->schedule() : Schedule{};
}

// Where all ranks have the step, the same thing is broken in it everywhere: then they mostly stay alike.
void damage(Schedule& schedule, example::Draw& draw) {
  const std::uint32_t kind = draw.below(11);
  const std::uint32_t lane = draw.below(schedule.lanes[0].size());
  if (schedule.lanes[0][lane].steps.empty()) return;
  const std::uint32_t number = draw.below(schedule.lanes[0][lane].steps.size());
  const std::uint32_t extra = draw.below(3);
  for (std::vector<Lane>& lanes : schedule.lanes) {
    if (lane >= lanes.size() || number >= lanes[lane].steps.size()) continue;
    Step& step = lanes[lane].steps[number];
    switch (kind) {
      case 0:
        step.waits.clear();
        break;
      case 1:
        for (Wait& wait : step.waits) wait.outer_offset += 1 + static_cast<std::int32_t>(extra);
        break;
      case 2:
        for (Wait& wait : step.waits) wait.outer_offset -= 1 + static_cast<std::int32_t>(extra);
        break;
      case 3:
        step.segment.base += 1;
        break;
      case 4:
        step.span.base += static_cast<std::int32_t>(extra);
        break;
      case 5:
        step.has_first = !step.has_first;
        break;
      case 6:
        step.source.buffer = step.source.buffer == Buffer::kInput ? Buffer::kOutput : Buffer::kInput;
        break;
      case 7:
        step.channel_in += extra;
        step.channel_out += extra;
        break;
      case 8:
        step.kind = static_cast<StepKind>((static_cast<std::uint32_t>(step.kind) + 1 + extra) % 8);
        break;
      case 9:
        ++(extra == 0 ? step.outer_begin : lanes[lane].outer);
        break;
      default:
        lanes[lane].steps.insert(lanes[lane].steps.begin() + number, Step(step));
    }
  }
  if (kind == 10 && extra == 0) schedule.header.slots = 1;
}

struct Case {
  const char* algorithm;
  std::uint32_t servers, gpus, nics, alike;  // ranks that stand for all
};

class SymmetryTest : public testing::TestWithParam<Case> {
 protected:
  Cluster cluster() const {
    const Case& c = GetParam();
    Cluster result = Cluster::uniform(c.servers, c.gpus, c.nics, 50e9);
    (void)lose_nic(result, 1, 0);  // sizes of pieces differ, and that does not matter
    return result;
  }
};

TEST_P(SymmetryTest, FindsTheFewestRanksAndCountsAllMessages) {
  const Schedule schedule = planned(GetParam().algorithm, cluster(), 8);
  ASSERT_FALSE(schedule.lanes.empty());
  const std::optional<Symmetry> symmetry = symmetry_of(schedule);
  ASSERT_TRUE(symmetry);
  EXPECT_EQ(symmetry->ranks, GetParam().alike);
  EXPECT_EQ(symmetry->ranks * symmetry->turns, schedule.header.ranks);
  EXPECT_TRUE(check(schedule));
  EXPECT_TRUE(check(schedule, {.full = true}));
}

TEST_P(SymmetryTest, JudgesLikeARunOfAllRanks) {
  const Schedule good = planned(GetParam().algorithm, cluster(), 8);
  int alike = 0;
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    example::Draw draw(seed);
    Schedule broken = good;
    damage(broken, draw);
    const std::optional<Symmetry> symmetry = symmetry_of(broken);
    alike += symmetry ? 1 : 0;
    const Result<CheckReport> result = check(broken);
    accepted += result ? 1 : 0;
    ASSERT_EQ(result.has_value(), check(broken, {.full = true}).has_value()) << "seed " << seed;
  }
  EXPECT_GT(alike, 20);
  EXPECT_GT(120 - accepted, 20);
}

INSTANTIATE_TEST_SUITE_P(Plans, SymmetryTest,
                         testing::Values(Case{"weighted_direct", 5, 1, 8, 1}, Case{"hierarchical", 3, 2, 8, 2},
                                         Case{"direct", 4, 1, 1, 1}, Case{"balance", 4, 1, 2, 1},
                                         Case{"balance", 3, 2, 2, 2}, Case{"rotated_direct", 4, 2, 8, 4},
                                         Case{"rotated_direct", 6, 2, 8, 4}, Case{"rotated_direct", 9, 3, 8, 9}),
                         [](const auto& of) {
                           const Case& c = of.param;
                           return std::string(c.algorithm) + "_" + std::to_string(c.servers) + "x" +
                                  std::to_string(c.gpus);
                         });

// r2's first stage are sweeps, its second goes segment by segment; rings of many members are sweeps only. Ranks differ.
TEST(ShortCheck, SweepsAreJudgedLikeInFull) {
  int shorter = 0;
  int refused = 0;
  for (const std::uint32_t servers : {3u, 5u}) {
    Cluster cluster = Cluster::uniform(servers, 1, 3, 50e9);
    ASSERT_TRUE(lose_nic(cluster, 1, 0));
    const Schedule good = planned("r2", cluster, 32);
    ASSERT_TRUE(shortened(good));
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      example::Draw draw(seed);
      Schedule broken = good;
      const std::uint32_t only = draw.below(good.lanes.size());
      damage(broken, draw);
      for (std::uint32_t rank = 0; rank < servers && seed % 2 == 0; ++rank) {
        if (rank != only) broken.lanes[rank] = good.lanes[rank];
      }
      shorter += shortened(broken) ? 1 : 0;
      const bool accepted = check(broken).has_value();
      refused += accepted ? 0 : 1;
      ASSERT_EQ(accepted, check(broken, {.full = true}).has_value()) << servers << " servers, seed " << seed;
    }
  }
  EXPECT_GT(shorter, 100);
  EXPECT_GT(refused, 100);
}

TEST(ShortCheck, SweepsKeepTheirSlotsInProportion) {
  Cluster cluster = Cluster::uniform(4, 1, 3, 50e9);
  ASSERT_TRUE(lose_nic(cluster, 1, 0));
  Schedule schedule = planned("r2", cluster, 32);
  const std::optional<Shorter> shorter = shortened(schedule);
  ASSERT_TRUE(shorter);
  EXPECT_EQ(schedule.header.slots, 64u);
  EXPECT_EQ(shorter->sweep_slots, 2 * shorter->schedule.header.layout.segments);
  EXPECT_FALSE(shorter->sweep_channels.empty());
  EXPECT_TRUE(check(schedule));
  schedule.header.slots = 31;  // less than one round: all wait for all
  EXPECT_FALSE(shortened(schedule));
  EXPECT_FALSE(check(schedule));
}

TEST(ShortCheck, ASweepThatWaitsForASegmentLaneIsNotShortened) {
  Cluster cluster = Cluster::uniform(4, 1, 3, 50e9);
  ASSERT_TRUE(lose_nic(cluster, 1, 0));
  Schedule schedule = planned("r2", cluster, 32);
  const auto last = static_cast<std::uint32_t>(schedule.lanes[0].size() - 1);
  schedule.lanes[0][0].steps[0].waits.push_back({.lane = last, .step = 0, .outer_offset = -100});
  EXPECT_FALSE(shortened(schedule));
}

// One rank that differs is enough.
TEST(Symmetry, OneWrongRankIsSeen) {
  const Schedule good = planned("weighted_direct", Cluster::uniform(6, 1, 2, 50e9), 8);
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    Schedule broken = good;
    broken.lanes[rank][0].steps[1].waits.clear();
    EXPECT_FALSE(symmetry_of(broken));
    EXPECT_FALSE(check(broken));
  }
}

TEST(Symmetry, RandomPlansAreJudgedAlike) {
  int alike = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    example::Draw draw(seed);
    const Algorithm& algorithm = algorithms()[draw.below(algorithms().size())];
    const Cluster cluster = example::random_cluster(draw, draw.between(1, 6));
    const Result<Plan> plan =
        r2ccl::plan(algorithm.name, example::random_request(draw, algorithm.collective, cluster), cluster);
    if (!plan) continue;
    const Schedule schedule = plan->schedule();
    alike += symmetry_of(schedule) ? 1 : 0;
    ASSERT_TRUE(check(schedule)) << algorithm.name << ", seed " << seed;
  }
  EXPECT_GT(alike, 50);
}

}  // namespace
}  // namespace r2ccl
