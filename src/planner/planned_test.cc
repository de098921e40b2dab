// Every plan is proven: on random damaged clusters each algorithm either refuses with a sentence or gives a schedule
// that the checker accepts. What is refused at the door says why.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "schedule/check/check.h"
#include "schedule/cursor.h"
#include "testing/random_cluster.h"

namespace r2ccl {
namespace {

constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                       Collective::kBroadcast, Collective::kReduce,        Collective::kGather,
                                       Collective::kScatter,   Collective::kAllToAll};

struct Row {
  std::string_view algorithm;
  Collective collective;
};

std::vector<Row> rows() {
  std::vector<Row> rows;
  for (const Algorithm& a : algorithms()) rows.push_back({a.name, a.collective});
  for (const Collective collective : kCollectives) rows.push_back({"auto", collective});
  return rows;
}

// Only trees, rings and chains go around servers that share no rail; the others send straight.
bool relays(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kBroadcast ||
         collective == Collective::kReduce;
}

bool may_refuse(const Row& row, const Cluster& cluster) {
  if (row.algorithm != "auto") return true;
  return relays(row.collective) ? !example::joined(cluster) : !example::every_pair_shares_a_rail(cluster);
}

// One sentence: something, on one line.
void expect_sentence(const Error& error) {
  EXPECT_EQ(error.fault, Fault::kMisuse);
  EXPECT_FALSE(error.what.empty());
  EXPECT_EQ(error.what.find('\n'), std::string::npos);
}

void expect_frame(const Plan& plan, const Row& row, const Request& request, const Cluster& cluster) {
  EXPECT_EQ(plan.header.collective, request.collective);
  EXPECT_EQ(plan.header.ranks, cluster.ranks());
  EXPECT_EQ(plan.header.ranks_per_server, cluster.gpus);
  EXPECT_EQ(plan.header.root, request.root);
  if (row.algorithm != "auto") {
    EXPECT_EQ(plan.header.algorithm, row.algorithm);
  }
  EXPECT_TRUE(std::isfinite(plan.predicted_s) && plan.predicted_s >= 0) << plan.predicted_s;
}

// Whether NICs that work carry what `lane` of server u sends to server v: those of its rail, or of the planned shares.
bool carried(const PlanHeader& header, const Lane& lane, const Cluster& cluster, std::uint32_t u, std::uint32_t v) {
  const auto works = [&](std::uint32_t nic) { return cluster.nic(u, nic) > 0 && cluster.nic(v, nic) > 0; };
  if (lane.rail != kAnyRail) {
    const auto rail = static_cast<std::uint32_t>(lane.rail);
    const bool mapped = !header.nic_of_rail.empty();
    const std::uint32_t out = mapped ? header.nic_of_rail[u * cluster.nics + rail] : rail;
    const std::uint32_t in = mapped ? header.nic_of_rail[v * cluster.nics + rail] : rail;
    if (cluster.fabric == Fabric::kRouted) return cluster.nic(u, out) > 0 && cluster.nic(v, in) > 0;
    return works(out) || works(in);  // where they differ, the transport takes one that both have
  }
  if (header.shares.empty()) return example::share_a_rail(cluster, u, v);
  std::uint32_t working = 0;
  for (std::uint32_t nic = 0; nic < cluster.nics; ++nic) working += works(nic) ? header.shares.of(u, v)[nic] : 0;
  return working == kShareUnit;
}

void expect_carried(const Schedule& schedule, const Cluster& cluster) {
  for (std::uint32_t rank = 0; rank < schedule.header.ranks; ++rank) {
    for (const Lane& lane : schedule.lanes[rank]) {
      for (LaneCursor at(lane); !at.done(); at.next()) {
        if (!sends(at.step().kind) || schedule.header.layout.share(static_cast<std::uint32_t>(at.span())) == 0)
          continue;
        const std::uint32_t u = rank / cluster.gpus;
        const auto v = static_cast<std::uint32_t>(at.to()) / cluster.gpus;
        ASSERT_TRUE(u == v || carried(schedule.header, lane, cluster, u, v))
            << schedule.header.algorithm << ": rank " << rank << ", lane " << lane.name << " to rank " << at.to();
      }
    }
  }
}

// Whether there was a plan to prove.
bool prove(const Row& row, const Request& request, const Cluster& cluster, const Tuning& tuning = {}) {
  const Result<Plan> plan = r2ccl::plan(row.algorithm, request, cluster, tuning);
  if (!plan) {
    expect_sentence(plan.error());
    EXPECT_TRUE(may_refuse(row, cluster)) << plan.error().what;
    return false;
  }
  expect_frame(*plan, row, request, cluster);
  const Schedule schedule = plan->schedule();
  const Result<CheckReport> report = check(schedule);
  EXPECT_TRUE(report) << plan->header.algorithm << ": " << report.error().what;
  if (report && cluster.ranks() <= 24) expect_carried(schedule, cluster);  // step by step: dear for many ranks
  return true;
}

// Mostly few: there every corner case is met sooner.
std::uint32_t random_servers(example::Draw& draw) {
  if (draw.one_in(100)) return draw.between(2, 64);
  return draw.between(2, draw.one_of({3U, 5U, 8U, 12U}));
}

// Mostly what the algorithm chooses by itself.
Tuning random_tuning(example::Draw& draw) {
  Tuning tuning;
  if (draw.one_in(4)) tuning.segments = draw.between(1, 9);
  if (draw.one_in(4)) tuning.r2_tail = Tuning::Tail::kLostFraction;
  if (draw.one_in(4)) tuning.r2_chunks = draw.between(1, 5);
  return tuning;
}

// Proofs of these take 10 ms and more: long lists of steps.
bool dear(const Row& row) {
  return row.algorithm == "recursive" || row.algorithm == "optcc" || row.algorithm == "r2" || row.algorithm == "trees";
}

class PlannedTest : public testing::TestWithParam<std::size_t> {};

TEST_P(PlannedTest, IsProvenOrRefusedWithASentence) {
  const Row row = rows()[GetParam()];
  const std::uint32_t number = cases(dear(row) ? 700 : 1500);
  std::uint32_t planned = 0;
  for (std::uint32_t seed = 0; seed < number && !HasFailure(); ++seed) {
    example::Draw draw(10'000 * GetParam() + seed);
    Cluster cluster = example::random_cluster(draw, random_servers(draw));
    while (cluster.ranks() > 96) cluster = example::random_cluster(draw, random_servers(draw));
    const Request request = example::random_request(draw, row.collective, cluster);
    SCOPED_TRACE(fmt::format("{}, seed {}: {}", row.algorithm, seed, example::describe(request, cluster)));
    if (prove(row, request, cluster, random_tuning(draw))) ++planned;
  }
  EXPECT_GT(planned, number / 50);
  RecordProperty("planned", static_cast<int>(planned));
}

INSTANTIATE_TEST_SUITE_P(Table, PlannedTest, testing::Range<std::size_t>(0, rows().size()), [](const auto& row) {
  return fmt::format("{}_{}", to_text(rows()[row.param].collective), rows()[row.param].algorithm);
});

class PlannedLargeTest : public testing::TestWithParam<Collective> {};

TEST_P(PlannedLargeTest, AutoIsProvenOn512Ranks) {
  example::Draw draw(static_cast<std::uint64_t>(GetParam()));
  for (const Fabric fabric : {Fabric::kRouted, Fabric::kRails}) {
    Cluster cluster = Cluster::uniform(kSanitized ? 16 : 64, 8, 8, 50e9);
    cluster.fabric = fabric;
    for (const std::uint32_t nic : {1U, 4U}) ASSERT_TRUE(lose_nic(cluster, draw.below(cluster.servers), nic));
    const Request request{.collective = GetParam(), .bytes = std::uint64_t{1} << 28, .root = 100};
    EXPECT_TRUE(prove({"auto", GetParam()}, request, cluster)) << example::describe(request, cluster);
  }
}

INSTANTIATE_TEST_SUITE_P(Collectives, PlannedLargeTest, testing::ValuesIn(kCollectives),
                         [](const auto& row) { return std::string(to_text(row.param)); });

TEST(Planned, EveryAllReduceThatCanIsProvenOnManyServers) {
  Cluster cluster = Cluster::uniform(kSanitized ? 8 : 24, 8, 8, 50e9);
  ASSERT_TRUE(lose_nic(cluster, 5, 3));
  const Request request{.collective = Collective::kAllReduce, .bytes = std::uint64_t{1} << 28};
  std::uint32_t planned = 0;
  for (const Row& row : rows()) {
    if (row.collective == request.collective && prove(row, request, cluster)) ++planned;
  }
  EXPECT_GE(planned, 12U);
}

TEST(Planned, OneRankNeedsNoAlgorithm) {
  const Cluster cluster = Cluster::uniform(1, 1, 2, 50e9);
  for (const Collective collective : kCollectives) {
    EXPECT_TRUE(prove({"auto", collective}, {.collective = collective, .bytes = 1 << 20}, cluster));
  }
}

TEST(Planned, OneServerNeedsNoNetwork) {
  for (const std::uint32_t gpus : {2U, 3U, 8U}) {
    const Cluster cluster = Cluster::uniform(1, gpus, 2, 50e9);
    for (const Row& row : rows()) {
      SCOPED_TRACE(fmt::format("{} {} on {} GPUs", to_text(row.collective), row.algorithm, gpus));
      prove(row, {.collective = row.collective, .bytes = 1 << 20, .root = gpus - 1}, cluster);
    }
  }
}

TEST(Planned, ARootOutOfRangeAnUnknownNameAndAServerWithoutANicAreRefused) {
  const Cluster cluster = Cluster::uniform(3, 2, 2, 50e9);
  const Result<Plan> root = plan("auto", {.collective = Collective::kBroadcast, .bytes = 1, .root = 6}, cluster);
  ASSERT_FALSE(root);
  EXPECT_EQ(root.error().what, "there is no rank 6 to be the root; ranks are 0 to 5");
  const Result<Plan> name = plan("rign", {.collective = Collective::kGather, .bytes = 1}, cluster);
  ASSERT_FALSE(name);
  EXPECT_EQ(name.error().what, "there is no algorithm 'rign' for gather; there are auto, balance");
  Cluster cut_off = cluster;
  cut_off.rate[2] = cut_off.rate[3] = 0;
  const Result<Plan> nic = plan("auto", {.collective = Collective::kAllReduce, .bytes = 1}, cut_off);
  ASSERT_FALSE(nic);
  EXPECT_EQ(nic.error().what, "server 1 has no working NIC; each server needs one");
  for (const Result<Plan>& refused : {root, name, nic}) expect_sentence(refused.error());
}

TEST(Planned, ServersThatNoRailJoinsAreRefusedForEveryCollective) {
  Cluster cluster = Cluster::uniform(4, 2, 2, 50e9);
  cluster.fabric = Fabric::kRails;
  for (const std::uint32_t server : {0U, 1U, 2U, 3U}) ASSERT_TRUE(lose_nic(cluster, server, server / 2));
  for (const Collective collective : kCollectives) {
    for (const std::uint64_t bytes : {0ULL, 1ULL, 3ULL, 1ULL << 10, 1ULL << 30}) {
      const Result<Plan> refused = plan("auto", {.collective = collective, .bytes = bytes}, cluster);
      ASSERT_FALSE(refused) << to_text(collective);
      expect_sentence(refused.error());
      EXPECT_THAT(refused.error().what, testing::HasSubstr("rail"));
    }
  }
}

}  // namespace
}  // namespace r2ccl
