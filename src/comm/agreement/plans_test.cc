// Which plan a call gets, and what is asked of it besides its algorithm.

#include "comm/agreement/plans.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "comm/agreement/health_map.h"

namespace r2ccl {
namespace {

Call all_reduce(std::uint64_t bytes) {
  Call call;
  call.kind = CallKind::kAllReduce;
  call.type = DataType::kFloat32;
  call.count = bytes / 4;
  return call;
}

std::shared_ptr<const RankPlan> plan(Mode mode, const char* algorithm, const Cluster& cluster, std::uint64_t bytes) {
  Plans plans(mode, algorithm, 0);
  plans.set_healthy(cluster);
  plans.use(cluster, 0);
  return plans.plan_for(all_reduce(bytes)).value();
}

TEST(Plans, OnlyHotRepairAloneKeepsItsRails) {
  Cluster cluster = Cluster::uniform(4, 1, 4, 1e9);
  EXPECT_TRUE(plan(Mode::kRepair, "", cluster, 64 << 20)->keeps_rails);
  EXPECT_FALSE(plan(Mode::kOff, "", cluster, 64 << 20)->keeps_rails);
  EXPECT_FALSE(plan(Mode::kAuto, "ring", cluster, 64 << 20)->keeps_rails);
  cluster.rate[1] = 0;
  EXPECT_TRUE(plan(Mode::kAuto, "repair_only", cluster, 64 << 20)->keeps_rails);
  EXPECT_FALSE(plan(Mode::kBalance, "", cluster, 64 << 20)->keeps_rails);
}

// The first and the last segment of an exchange overlap with nothing; that of a ring's keep the ring busy.
TEST(Plans, AnExchangeIsCutFinerWhereNicsAreSlow) {
  const auto segments = [](const char* algorithm, double nic_rate) {
    return plan(Mode::kAuto, algorithm, Cluster::uniform(4, 1, 4, nic_rate), 256 << 20)->header.layout.segments;
  };
  EXPECT_EQ(segments("weighted_direct", 12.5e9), 128u);
  EXPECT_EQ(segments("weighted_direct", 62.5e6), 512u);
  EXPECT_EQ(segments("balance", 62.5e6), segments("balance", 12.5e9));
}

// On a wire a segment travels while another is added; a processor does one after the other.
TEST(Plans, WithoutAWireMessagesOfARingAreWhole) {
  for (const bool in_memory : {false, true}) {
    const Cluster cluster =
        cluster_of({.servers = 4,
                    .gpus = 1,
                    .nics = 1,
                    .sharing = {},
                    .nic_rate = std::vector(4, 1e9),
                    .played = 4,
                    .in_memory = in_memory},
                   {.version = 0, .nic = std::vector<Permille>(4, kWhole)}, Fabric::kRouted, LinkCosts{});
    EXPECT_EQ(plan(Mode::kAuto, "ring", cluster, 2 << 20)->header.layout.segments, in_memory ? 1u : 4u);
  }
}

// The more unequal servers are, the less their halves of an exchange overlap: then many small messages pay, where NICs
// are slow.
TEST(Plans, UnequalServersGetMoreSegmentsThanTheirMessagesAskFor) {
  Cluster cluster =
      cluster_of({.servers = 4, .gpus = 1, .nics = 4, .sharing = {}, .nic_rate = std::vector(16, 62.5e6), .played = 4},
                 {.version = 0, .nic = std::vector<Permille>(16, kWhole)}, Fabric::kRouted, LinkCosts{});
  const auto segments = [&] { return plan(Mode::kAuto, "weighted_direct", cluster, 1 << 20)->header.layout.segments; };
  EXPECT_LE(segments(), 4u);
  for (const std::uint32_t nic : {1u, 3u, 4u + 2u}) cluster.rate[nic] = 0;
  EXPECT_EQ(segments(), 8u);
  EXPECT_EQ(plan(Mode::kAuto, "", cluster, 1 << 20)->header.algorithm, "weighted_direct");
}

// Questions that stay open until the test answers them.
class OpenQuestions final : public PlanSource {
 public:
  std::unique_ptr<AskedPlan> ask(PlanQuestion question) override {
    questions.push_back(std::move(question));
    answers.emplace_back();
    return std::make_unique<Asked>(*this, answers.size() - 1);
  }
  std::vector<PlanQuestion> questions;
  std::vector<std::optional<Result<RankPlanPtr>>> answers;

 private:
  struct Asked final : AskedPlan {
    Asked(OpenQuestions& all, std::size_t number) : of(all), index(number) {}
    const Result<RankPlanPtr>* poll(Instant) override { return of.answers[index] ? &*of.answers[index] : nullptr; }
    OpenQuestions& of;
    const std::size_t index;
  };
};

TEST(Plans, AnAnswerAboutAMapThatIsGoneIsNotUsed) {
  OpenQuestions source;
  Plans plans(Mode::kAuto, "", 0, &source);
  Cluster cluster = Cluster::uniform(4, 1, 4, 1e9);
  plans.set_healthy(cluster);
  plans.use(cluster, 0);
  EXPECT_EQ(plans.plan_for(all_reduce(64 << 20)).value(), nullptr);
  cluster.rate[1] = 0;
  plans.use(cluster, 1);
  source.answers[0] = answer(source.questions[0]);  // too late
  EXPECT_EQ(plans.plan_for(all_reduce(64 << 20)).value(), nullptr);
  ASSERT_EQ(source.questions.size(), 2u);
  EXPECT_EQ(source.questions[1].ground->cluster.rate, cluster.rate);
  source.answers[1] = answer(source.questions[1]);
  const auto plan = plans.plan_for(all_reduce(64 << 20)).value();
  EXPECT_EQ(plan, **source.answers[1]);
}

TEST(Plans, AQuestionAboutAnotherCallGivesTheOneBeforeUp) {
  OpenQuestions source;
  Plans plans(Mode::kAuto, "", 0, &source);
  plans.use(Cluster::uniform(4, 1, 4, 1e9), 0);
  EXPECT_EQ(plans.plan_for(all_reduce(1 << 10)).value(), nullptr);
  EXPECT_EQ(plans.plan_for(all_reduce(1 << 20)).value(), nullptr);
  for (std::size_t i = 0; i < 2; ++i) source.answers[i] = answer(source.questions[i]);
  EXPECT_EQ(plans.plan_for(all_reduce(1 << 20)).value(), **source.answers[1]);
}

// What can not be planned is said each time, and remembered as nothing.
TEST(Plans, ARefusalOfTheSourceIsPassedOn) {
  OpenQuestions source;
  Plans plans(Mode::kAuto, "", 0, &source);
  plans.use(Cluster::uniform(4, 1, 4, 1e9), 0);
  EXPECT_EQ(plans.plan_for(all_reduce(8)).value(), nullptr);
  source.answers[0] = fail(Fault::kMisuse, "no");
  EXPECT_FALSE(plans.plan_for(all_reduce(8)).has_value());
  EXPECT_EQ(plans.known(all_reduce(8)), nullptr);
  EXPECT_EQ(plans.plan_for(all_reduce(8)).value(), nullptr) << "asked again";
}

}  // namespace
}  // namespace r2ccl
