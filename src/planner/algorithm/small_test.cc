// all_reduce for small messages.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <tuple>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/single.h"
#include "schedule/check/check.h"
#include "schedule/cursor.h"

namespace r2ccl {
namespace {

struct Named {
  const char* name;
  PlanFunction plan;
};
constexpr Named kSmall[] = {
    {"direct", plan_direct}, {"recursive_doubling", plan_recursive_doubling}, {"tree", plan_tree}};

Plan planned(PlanFunction function, std::uint64_t bytes, const Cluster& cluster, const Tuning& tuning = {}) {
  Result<Plan> plan = function({.collective = Collective::kAllReduce, .bytes = bytes}, cluster, tuning);
  if (!plan) throw std::runtime_error(plan.error().what);
  return *std::move(plan);
}

// Executes an all_reduce of one number per piece and segment, in place: input and output are the same memory.
class Executor final {
 public:
  Executor(const Schedule& schedule, std::vector<std::vector<float>> memory)
      : schedule_(schedule), memory_(std::move(memory)) {
    scratch_.resize(schedule.header.ranks, std::vector<float>(schedule.header.scratch_slots));
    for (const std::vector<Lane>& lanes : schedule.lanes) {
      cursors_.emplace_back();
      for (const Lane& lane : lanes) cursors_.back().emplace_back(lane);
    }
  }

  std::vector<std::vector<float>> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t rank = 0; rank < schedule_.header.ranks; ++rank) {
        for (LaneCursor& cursor : cursors_[rank]) {
          while (!cursor.done() && ready(rank, cursor)) {
            step(rank, cursor);
            cursor.next();
            moved = true;
          }
        }
      }
    }
    for (const auto& lanes : cursors_) {
      for (const LaneCursor& cursor : lanes) EXPECT_TRUE(cursor.done());
    }
    return memory_;
  }

 private:
  using Connection = std::tuple<std::int64_t, std::int64_t, std::uint32_t>;

  bool ready(std::uint32_t rank, const LaneCursor& cursor) {
    for (const Wait& wait : cursor.step().waits) {
      const std::int64_t outer = std::int64_t{cursor.outer()} + wait.outer_offset;
      if (outer >= 0 && !cursors_[rank][wait.lane].passed(wait.step, static_cast<std::uint32_t>(outer))) return false;
    }
    return !receives(cursor.step().kind) || !wire_[{cursor.from(), rank, cursor.step().channel_in}].empty();
  }

  float& at(std::uint32_t rank, const LaneCursor& cursor, Buffer buffer, const Operand& operand) {
    if (buffer == Buffer::kScratch) {
      return scratch_[rank][static_cast<std::size_t>(operand.slot.at(cursor.outer(), cursor.inner()))];
    }
    return memory_[rank][static_cast<std::size_t>(cursor.segment() * schedule_.header.layout.pieces() + cursor.span())];
  }

  void step(std::uint32_t rank, const LaneCursor& cursor) {
    const Step& s = cursor.step();
    float value = cursor.source() == Buffer::kNone ? 0 : at(rank, cursor, cursor.source(), s.source);
    if (receives(s.kind)) {
      auto& queue = wire_[{cursor.from(), rank, s.channel_in}];
      value = cursor.source() == Buffer::kNone ? queue.front() : queue.front() + value;
      queue.pop_front();
    }
    if (s.kind == StepKind::kReduce) value = at(rank, cursor, s.destination.buffer, s.destination) + value;
    if (s.destination.buffer != Buffer::kNone) at(rank, cursor, s.destination.buffer, s.destination) = value;
    if (sends(s.kind)) wire_[{rank, cursor.to(), s.channel_out}].push_back(value);
  }

  const Schedule& schedule_;
  std::vector<std::vector<float>> memory_;
  std::vector<std::vector<float>> scratch_;
  std::vector<std::vector<LaneCursor>> cursors_;
  std::map<Connection, std::deque<float>> wire_;
};

TEST(SmallAllReduceTest, EveryPlanIsProvenForAnyNumberOfRanks) {
  for (const Named& named : kSmall) {
    for (const std::uint32_t gpus : {1U, 2U, 3U, 4U, 8U}) {
      for (std::uint32_t servers = 1; servers * gpus <= 12 || servers <= 2; ++servers) {
        if (servers * gpus < 2) continue;
        for (const std::uint64_t bytes : {64ULL, 1ULL << 20, 1ULL << 28}) {
          for (const Fabric fabric : {Fabric::kRouted, Fabric::kRails}) {
            Cluster cluster = Cluster::uniform(servers, gpus, 4, 50e9);
            cluster.fabric = fabric;
            if (servers > 1) {
              ASSERT_TRUE(lose_nic(cluster, servers - 1, 1));
            }
            const Result<CheckReport> report = check(planned(named.plan, bytes, cluster).schedule());
            ASSERT_TRUE(report) << named.name << ", " << servers << " x " << gpus << ": " << report.error().what;
          }
        }
      }
    }
  }
}

TEST(SmallAllReduceTest, AllRanksEndWithTheSameBits) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> number(-1.0F, 1.0F);
  for (const Named& named : kSmall) {
    for (std::uint32_t ranks = 2; ranks <= 12; ++ranks) {
      for (const std::uint64_t bytes : {64ULL, 64ULL << 20}) {
        const Schedule schedule = planned(named.plan, bytes, Cluster::uniform(ranks, 1, 2, 50e9)).schedule();
        std::vector<std::vector<float>> input(ranks);
        for (auto& values : input) {
          for (std::uint32_t i = 0; i < schedule.header.layout.pieces() * schedule.header.layout.segments; ++i) {
            values.push_back(number(random));
          }
        }
        const auto output = Executor(schedule, input).run();
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
          ASSERT_EQ(output[rank], output[0]) << named.name << ", rank " << rank << " of " << ranks;
        }
        float sum = 0;
        for (const auto& values : input) sum += values[0];
        EXPECT_NEAR(output[0][0], sum, 1e-4F) << named.name;
      }
    }
  }
}

TEST(SmallAllReduceTest, DirectTakesOneHopForTheSmallestAndTwoForMore) {
  const Cluster cluster = Cluster::uniform(8, 1, 8, 50e9);
  const Plan tiny = planned(plan_direct, 1 << 10, cluster);
  EXPECT_EQ(tiny.header.layout.pieces(), 1U);
  EXPECT_LT(tiny.predicted_s, 1.1 * cluster.alpha_s);
  const Plan larger = planned(plan_direct, 16 << 20, cluster);
  EXPECT_EQ(larger.header.layout.pieces(), 8U);
  EXPECT_GT(larger.predicted_s, 2 * cluster.alpha_s);
}

// Four servers with four slow NICs each, where messages cost processor time.
Cluster slow_nics() {
  Cluster cluster = Cluster::uniform(4, 1, 4, 62.5e6);
  cluster.alpha_s = 10e-6;
  cluster.port_cost_s = 16e-6;
  return cluster;
}

std::string chosen(std::uint64_t bytes, const Cluster& cluster) {
  const Result<Plan> plan = r2ccl::plan("auto", {.collective = Collective::kAllReduce, .bytes = bytes}, cluster, {});
  return plan ? std::string(plan->header.algorithm) : plan.error().what;
}

TEST(SmallAllReduceTest, WhoHandlesOneMessageAtATimeSendsFewer) {
  Cluster cluster = slow_nics();
  EXPECT_EQ(chosen(8, cluster), "direct");  // three messages, one on each of three NICs
  cluster.rank_cost_s = cluster.port_cost_s;
  EXPECT_EQ(chosen(8, cluster), "recursive_doubling");
}

// A flat tree has six messages, the exchanges have eight; where they are all in one machine's memory that decides.
TEST(SmallAllReduceTest, WhereServersShareProcessorsATreeIsFlat) {
  Cluster cluster = slow_nics();
  cluster.rank_cost_s = cluster.port_cost_s;
  EXPECT_EQ(planned(plan_tree, 1 << 20, cluster).lanes(0)[0].steps.size(), 2U);
  cluster.played = 4;
  EXPECT_EQ(chosen(8, cluster), "tree");
  EXPECT_EQ(planned(plan_tree, 8, cluster).lanes(0)[0].steps.size(), 3U);
}

TEST(SmallAllReduceTest, WhereFlowsDoNotEndTogetherARingIsChosen) {
  Cluster cluster = slow_nics();
  EXPECT_EQ(chosen(2 << 20, cluster), "direct");
  cluster.crowd = 0.15;
  cluster.rank_cost_s = cluster.port_cost_s;
  const std::string name = chosen(2 << 20, cluster);
  EXPECT_TRUE(name == "ring" || name == "balance") << name;
}

TEST(SmallAllReduceTest, BetweenTwoServersThereIsNoCrowd) {
  Cluster cluster = Cluster::uniform(2, 1, 4, 62.5e6);
  const double alone_s = planned(plan_direct, 2 << 20, cluster).predicted_s;
  cluster.crowd = 0.15;
  EXPECT_EQ(planned(plan_direct, 2 << 20, cluster).predicted_s, alone_s);
}

TEST(SmallAllReduceTest, TreeCrossesBetweenServersOncePerEdge) {
  const Schedule schedule = planned(plan_tree, 1 << 10, Cluster::uniform(5, 4, 4, 50e9)).schedule();
  std::uint32_t messages = 0;
  for (std::uint32_t rank = 0; rank < schedule.header.ranks; ++rank) {
    for (const Lane& lane : schedule.lanes[rank]) {
      for (LaneCursor cursor(lane); !cursor.done(); cursor.next()) {
        messages += sends(cursor.step().kind) && cursor.to() / 4 != rank / 4;
      }
    }
  }
  EXPECT_EQ(messages, 2 * 4U * schedule.header.layout.segments);
}

TEST(SmallAllReduceTest, TreeGoesAroundServersThatShareNoRail) {
  Cluster cluster = Cluster::uniform(3, 2, 2, 50e9);
  cluster.fabric = Fabric::kRails;
  ASSERT_TRUE(lose_nic(cluster, 0, 0));
  ASSERT_TRUE(lose_nic(cluster, 1, 1));
  const Schedule schedule = planned(plan_tree, 1 << 20, cluster).schedule();
  EXPECT_TRUE(check(schedule));
  for (std::uint32_t rank = 0; rank < schedule.header.ranks; ++rank) {
    for (const Lane& lane : schedule.lanes[rank]) {
      for (LaneCursor cursor(lane); !cursor.done(); cursor.next()) {
        if (!sends(cursor.step().kind)) continue;
        EXPECT_NE(rank / 2 + cursor.to() / 2, 1) << "servers 0 and 1 can not talk";
      }
    }
  }
  const Result<Plan> direct = plan_direct({.bytes = 1 << 20}, cluster, {});
  ASSERT_FALSE(direct);
  EXPECT_EQ(direct.error().fault, Fault::kMisuse);
}

TEST(SmallAllReduceTest, OneRankCopiesForEveryCollective) {
  for (std::uint8_t kind = 0; kind <= static_cast<std::uint8_t>(Collective::kAllToAll); ++kind) {
    const auto collective = static_cast<Collective>(kind);
    const Result<Plan> plan = plan_single({.collective = collective, .bytes = 64}, Cluster::uniform(1, 1, 1, 50e9));
    ASSERT_TRUE(plan);
    const Result<CheckReport> report = check(plan->schedule());
    EXPECT_TRUE(report) << to_text(collective) << ": " << report.error().what;
  }
}

}  // namespace
}  // namespace r2ccl
