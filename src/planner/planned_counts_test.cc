// Planned schedules move real elements: right for every count, in both placements, in random orders. A plan is made for
// some size and must serve any other.

#include <gtest/gtest.h>

#include "testing/check_numbers.h"
#include "testing/random_cluster.h"

namespace r2ccl {
namespace {

bool made_of_blocks(Collective collective) {
  return collective != Collective::kAllReduce && collective != Collective::kBroadcast &&
         collective != Collective::kReduce;
}

// Of the whole vector: none, one, fewer than there are pieces, primes, and some that do divide.
std::vector<std::uint32_t> counts_for(Collective collective, std::uint32_t ranks, example::Draw& draw) {
  if (!made_of_blocks(collective)) return {0, 1, 2, ranks + 1, 13, 251, draw.below(2000)};
  return {0, ranks, 2 * ranks, 7 * ranks, 61 * ranks, draw.below(300) * ranks};
}

void expect_right(std::string_view algorithm, const Request& request, const Cluster& cluster, example::Draw& draw) {
  Tuning tuning;
  if (draw.one_in(2)) tuning.segments = draw.between(2, 5);
  const Result<Plan> plan = r2ccl::plan(algorithm, request, cluster, tuning);
  if (!plan) return;  // planned_test.cc asks when
  const Schedule schedule = plan->schedule();
  for (const std::uint32_t count : counts_for(request.collective, cluster.ranks(), draw)) {
    EXPECT_TRUE(example::comes_out_right(schedule, 2, count))
        << algorithm << " with " << count << " elements: " << example::describe(request, cluster);
  }
}

struct Shape {
  std::uint32_t servers;
  std::uint32_t gpus;
};
constexpr Shape kShapes[] = {{1, 1}, {2, 1}, {3, 1}, {6, 1}, {1, 2}, {1, 6}, {2, 3}, {3, 2}};

class PlannedCountsTest : public testing::TestWithParam<std::size_t> {};

TEST_P(PlannedCountsTest, ComeOutRight) {
  const Algorithm& algorithm = algorithms()[GetParam()];
  std::uint32_t seed = 0;
  for (const Shape shape : kShapes) {
    for (const std::uint64_t bytes : {0ULL, 100ULL, 1ULL << 20, 64ULL << 20}) {
      for (const std::uint32_t faults : {0U, 1U, shape.servers}) {
        example::Draw draw(++seed);
        Cluster cluster = Cluster::uniform(shape.servers, shape.gpus, draw.between(1, 4), 50e9);
        cluster.fabric = draw.one_of({Fabric::kRouted, Fabric::kRails});
        for (std::uint32_t i = 0; i < faults; ++i) {
          (void)lose_nic(cluster, draw.below(shape.servers), draw.below(cluster.nics));
        }
        if (kSanitized && seed % 5 != 0) continue;
        expect_right(algorithm.name, {algorithm.collective, bytes, draw.below(cluster.ranks())}, cluster, draw);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, PlannedCountsTest, testing::Range<std::size_t>(0, algorithms().size()),
                         [](const auto& row) {
                           const Algorithm& algorithm = algorithms()[row.param];
                           return fmt::format("{}_{}", to_text(algorithm.collective), algorithm.name);
                         });

}  // namespace
}  // namespace r2ccl
