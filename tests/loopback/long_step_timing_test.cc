// No step of an engine is long, however long planning takes: among a thousand ranks, and on isolated rails whose NICs
// are all different. The network and its time are simulated; what a step costs is the processor's time of the thread
// that makes it, which does not grow when other programs are in the way. One rank is planned for by a real worker,
// the others by this test, between steps.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <latch>
#include <vector>

#include "comm/agreement/plans.h"
#include "process/worker_plans.h"
#include "testing/random_cluster.h"
#include "tests/sim/crowd.h"

namespace r2ccl::sim {
namespace {

constexpr double kStepMost = 5e-3;
constexpr std::uint32_t kManyRanks = 1024;
constexpr std::uint32_t kRailServers = 16;
constexpr std::uint32_t kRails = 8;
constexpr std::uint32_t kUnequalSeed = 1533;  // of NICs that make packing trees long

double thread_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Equal questions of many ranks, answered by one plan when the test says so.
class OnePlan final : public PlanSource {
 public:
  std::unique_ptr<AskedPlan> ask(PlanQuestion question) override {
    open_.push_back(std::make_shared<Open>(std::move(question), nullptr));
    return std::make_unique<Asked>(open_.back());
  }
  std::size_t open() const { return open_.size(); }
  // How long that took, in seconds.
  double answer_all() {
    const double began = thread_s();
    const Result<Plan> plan = whole_plan(open_.front()->question);
    for (const auto& one : open_) one->part = part_of(plan.value(), one->question);
    open_.clear();
    return thread_s() - began;
  }

 private:
  struct Open {
    PlanQuestion question;
    Result<RankPlanPtr> part;
  };
  struct Asked final : AskedPlan {
    explicit Asked(std::shared_ptr<Open> asked) : open(std::move(asked)) {}
    const Result<RankPlanPtr>* poll(Instant) override { return *open->part == nullptr ? nullptr : &open->part; }
    const std::shared_ptr<Open> open;
  };
  std::vector<std::shared_ptr<Open>> open_;
};

class LongStep : public testing::Test {
 protected:
  struct Shape {
    std::uint32_t ranks;
    std::uint32_t nics;
    Fabric fabric;
  };

  void make(const Shape& shape, const Crowd::Rates& rates = {}) {
    const auto config = [&](std::uint32_t rank) {
      CommConfig one;
      one.fabric = shape.fabric;
      one.plans = rank == 0 ? static_cast<PlanSource*>(&by_worker) : &by_test;
      return one;
    };
    const auto stepping = [this](std::uint32_t, const std::function<void()>& step) {
      const double began = thread_s();
      step();
      longest = std::max(longest, thread_s() - began);
    };
    crowd.emplace(shape.ranks, shape.nics, config, stepping, rates);
    ASSERT_TRUE(crowd->join());
    fmt::print("  {} ranks meet: the longest step {:.2f} ms\n", shape.ranks, longest * 1e3);
    longest = 0;
  }

  // The first one, with its plans.
  void call(std::uint64_t floats) {
    const auto tickets = crowd->all_reduce(floats);
    crowd->run_for(10ms);
    ASSERT_EQ(by_test.open(), crowd->ranks() - 1);
    const double planning = by_test.answer_all();
    woken.wait();
    for (std::uint32_t rank = 0; rank < crowd->ranks(); ++rank) crowd->wake(rank);
    ASSERT_TRUE(crowd->finish(tickets));
    EXPECT_TRUE(crowd->sums_are_right());
    fmt::print("  {} ranks, first AllReduce of {} B ({}): the plan took {:.2f} ms, the longest step {:.2f} ms\n",
               crowd->ranks(), floats * sizeof(float), crowd->communicator(0).plan_in_use().algorithm, planning * 1e3,
               longest * 1e3);
    EXPECT_LT(longest, kStepMost);
  }

  std::latch woken{1};
  Worker worker;
  WorkerPlans by_worker{worker, [this] { woken.count_down(); }};
  OnePlan by_test;
  double longest = 0;
  std::optional<Crowd> crowd;
};

TEST_F(LongStep, IsShortInTheFirstCallOfAThousandRanks) {
  make({kManyRanks, 1, Fabric::kRouted});
  call(2);

  // Three that exchange with all: the others never come, so this is only about how they begin.
  longest = 0;
  std::vector<float> memory(kManyRanks);
  Call exchange;
  exchange.kind = CallKind::kAllToAll;
  exchange.input = exchange.output = memory.data();
  exchange.count = 1;
  for (const std::uint32_t rank : {1U, 2U, 512U}) crowd->submit(rank, exchange);
  crowd->run_for(1ms);
  ASSERT_EQ(by_test.open(), 3u);
  by_test.answer_all();
  for (const std::uint32_t rank : {1U, 2U, 512U}) crowd->wake(rank);
  crowd->run_for(50ms);
  for (const std::uint32_t rank : {1U, 2U, 512U}) EXPECT_EQ(crowd->sessions_of(rank), kManyRanks - 1);
  fmt::print("  {} ranks, AlltoAll begins: the longest step {:.2f} ms\n", kManyRanks, longest * 1e3);
  EXPECT_LT(longest, kStepMost);
}

// The average divides the input first, all of it.
TEST_F(LongStep, IsShortWhereAWholeBufferIsScaled) {
  make({2, 1, Fabric::kRouted});
  std::vector<float> memory(32 << 20, 1.0F);
  Call average;
  average.input = average.output = memory.data();
  average.count = memory.size();
  average.op.name = ReduceName::kAvg;
  crowd->submit(1, average);
  crowd->run_for(1ms);
  ASSERT_EQ(by_test.open(), 1u);
  by_test.answer_all();
  crowd->wake(1);
  crowd->run_for(1ms);
  EXPECT_EQ(memory.back(), 0.5F);
  fmt::print("  average of 128 MiB begins: the longest step {:.2f} ms\n", longest * 1e3);
  EXPECT_LT(longest, kStepMost);
}

TEST_F(LongStep, IsShortInTheFirstCallOnRails) {
  example::Draw draw(kUnequalSeed);
  std::vector<double> rates;
  draw.any();
  for (std::uint32_t i = 0; i < kRailServers * kRails; ++i) rates.push_back(1e7 * (1 + draw.below(100)));
  make({kRailServers, kRails, Fabric::kRails},
       [&](std::uint32_t server, std::uint32_t nic) { return rates[server * kRails + nic]; });
  call(256 << 10);
}

}  // namespace
}  // namespace r2ccl::sim
