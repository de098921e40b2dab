// Whatever the planner plans is executed right: every algorithm, on damaged clusters, for counts from none to many, in
// place and out of place, over a network that does everything a courier may do.

#include <gtest/gtest.h>

#include "base/sanitized.h"
#include "planner/plan.h"
#include "testing/collective_case.h"
#include "testing/random_cluster.h"

namespace r2ccl {
namespace {

bool made_of_blocks(Collective collective) {
  return collective != Collective::kAllReduce && collective != Collective::kBroadcast &&
         collective != Collective::kReduce;
}

// None, one, fewer than there are pieces, some that do not divide, and many.
std::uint64_t random_count(example::Draw& draw, const PlanHeader& header) {
  const std::uint64_t unit = made_of_blocks(header.collective) ? header.ranks : 1;
  switch (draw.below(6)) {
    case 0:
      return unit * draw.below(2);
    case 1:
      return unit * draw.below(header.layout.pieces() + 1);
    case 2:
      return draw.one_in(8) ? unit * (10'000 / unit + draw.below(999)) : unit * draw.below(1500 / unit + 2);
    default:
      return unit * draw.below(300 / unit + 2);
  }
}

class PlannedExecutionTest : public testing::TestWithParam<std::size_t> {};

TEST_P(PlannedExecutionTest, ComesOutRight) {
  const Algorithm& algorithm = algorithms()[GetParam()];
  std::uint64_t messages = 0;
  for (std::uint32_t seed = 0; seed < cases(300) && !HasFailure(); ++seed) {
    example::Draw draw(1'000 * GetParam() + seed);
    Cluster cluster = example::random_cluster(draw, draw.between(1, draw.one_of({2U, 4U, 8U})));
    while (cluster.ranks() > 16) cluster = example::random_cluster(draw, draw.between(1, 4));
    const Request request = example::random_request(draw, algorithm.collective, cluster);
    Tuning tuning;
    if (!draw.one_in(3)) tuning.segments = draw.between(1, 6);
    const Result<Plan> plan = r2ccl::plan(algorithm.name, request, cluster, tuning);
    if (!plan) continue;
    const Schedule schedule = plan->schedule();
    for (std::uint32_t i = 0; i < 3; ++i) {
      const example::CollectiveCase one{.schedule = schedule,
                                        .count = random_count(draw, schedule.header),
                                        .in_place = algorithm.collective != Collective::kAllToAll && draw.one_in(2),
                                        .type = draw.one_in(4) ? DataType::kInt32 : DataType::kUint64,
                                        .seed = draw.any()};
      example::CollectiveRun run(one);
      EXPECT_EQ(run.run(), "") << algorithm.name << ", seed " << seed << ", " << one.count << " elements, "
                               << (one.in_place ? "in place: " : "out of place: ")
                               << example::describe(request, cluster);
      messages += run.messages();
    }
  }
  EXPECT_GT(messages, 0U);
}

INSTANTIATE_TEST_SUITE_P(Table, PlannedExecutionTest, testing::Range<std::size_t>(0, algorithms().size()),
                         [](const auto& row) {
                           const Algorithm& algorithm = algorithms()[row.param];
                           return fmt::format("{}_{}", to_text(algorithm.collective), algorithm.name);
                         });

}  // namespace
}  // namespace r2ccl
