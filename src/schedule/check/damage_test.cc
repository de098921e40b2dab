// Right schedules with one thing broken. What the checker still accepts must be harmless: it comes out right with real
// numbers in many random orders. What it refuses names rank, lane and step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "schedule/check/check.h"
#include "testing/check_examples.h"
#include "testing/check_numbers.h"

namespace r2ccl {
namespace {

struct Dice {
  std::mt19937 engine;
  std::uint32_t below(std::size_t end) { return engine() % static_cast<std::uint32_t>(end); }
  std::int32_t sign() { return below(2) == 0 ? 1 : -1; }
};

// A random lane with steps, and one of them.
struct Spot {
  std::vector<Lane>& lanes;
  Lane& lane;
  std::uint32_t number;
  Step& step() const { return lane.steps[number]; }
};

Spot any_spot(Schedule& s, Dice& dice) {
  while (true) {
    std::vector<Lane>& lanes = s.lanes[dice.below(s.lanes.size())];
    if (lanes.empty()) continue;
    Lane& lane = lanes[dice.below(lanes.size())];
    if (!lane.steps.empty()) return {lanes, lane, dice.below(lane.steps.size())};
  }
}

// The loop of a lane moves along when a step before it goes or comes.
void shift_loop(Lane& lane, std::uint32_t at, std::int32_t by) {
  if (at < lane.inner_begin)
    lane.inner_begin = static_cast<std::uint32_t>(static_cast<std::int32_t>(lane.inner_begin) + by);
  if (lane.inner_end != UINT32_MAX && at < lane.inner_end) {
    lane.inner_end = static_cast<std::uint32_t>(static_cast<std::int32_t>(lane.inner_end) + by);
  }
}

struct Damage {
  const char* name;
  std::function<void(Schedule&, Dice&)> apply;  // may leave the schedule as it is
};

void drop_step(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  spot.lane.steps.erase(spot.lane.steps.begin() + spot.number);
  shift_loop(spot.lane, spot.number, -1);
}

void repeat_step(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  spot.lane.steps.insert(spot.lane.steps.begin() + spot.number, spot.step());
  shift_loop(spot.lane, spot.number, 1);
}

void swap_steps(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  std::swap(spot.step(), spot.lane.steps[dice.below(spot.lane.steps.size())]);
}

void wrong_peer(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  Index& peer = dice.below(2) == 0 ? spot.step().from : spot.step().to;
  peer.base += dice.sign();
}

void wrong_channel(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  ++(dice.below(2) == 0 ? spot.step().channel_in : spot.step().channel_out);
}

void wrong_span(Schedule& s, Dice& dice) {
  any_spot(s, dice).step().span.base += dice.sign();
}
void wrong_segment(Schedule& s, Dice& dice) {
  any_spot(s, dice).step().segment.base += dice.sign();
}

void remove_waits(Schedule& s, Dice& dice) {
  any_spot(s, dice).step().waits.clear();
}

void shift_wait(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  for (Wait& w : spot.step().waits) w.outer_offset += dice.sign();
}

void wrong_wait(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  for (Wait& w : spot.step().waits) {
    w.lane = dice.below(spot.lanes.size());
    w.step = dice.below(spot.lanes[w.lane].steps.size());
    w.one_inner = dice.below(2) == 0;
  }
}

void add_wait(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  const std::uint32_t lane = dice.below(spot.lanes.size());
  if (spot.lanes[lane].steps.empty()) return;
  spot.step().waits.push_back(
      {.lane = lane, .step = dice.below(spot.lanes[lane].steps.size()), .outer_offset = dice.below(2) == 0 ? 0 : 1});
}

void wrong_source(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  if (spot.step().source.buffer == Buffer::kNone) return;
  spot.step().source.buffer = spot.step().source.buffer == Buffer::kOutput ? Buffer::kInput : Buffer::kOutput;
}

void wrong_destination(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  if (spot.step().destination.buffer == Buffer::kNone) return;
  spot.step().destination.buffer = dice.below(2) == 0 ? Buffer::kInput : Buffer::kOutput;
}

void lose_first_source(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  if (dice.below(2) == 0) {
    spot.step().has_first = false;
  } else {
    spot.step().first_source = Buffer::kNone;
  }
}

// All connections take one message less than they need where messages wait for each other in a circle.
void fewer_slots(Schedule& s, Dice&) {
  s.header.slots = 1;
}

void same_slot(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  Operand& operand = dice.below(2) == 0 ? spot.step().source : spot.step().destination;
  if (operand.buffer == Buffer::kScratch)
    operand.slot = dice.below(2) == 0 ? fixed(0) : Index{.base = 1, .by_outer = 1, .modulo = 2};
}

void shift_guard(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  spot.step().guards.push_back(
      {.value = {.by_outer = 1, .by_inner = 1, .modulo = 2 + dice.below(2)}, .equals = dice.below(2)});
}

void cut_range(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  Step& step = spot.step();
  if (dice.below(2) == 0) {
    ++step.outer_begin;
  } else {
    step.outer_end = std::min(step.outer_end, spot.lane.outer) - 1;
  }
}

void wrong_loop(Schedule& s, Dice& dice) {
  const Spot spot = any_spot(s, dice);
  std::uint32_t& count = dice.below(2) == 0 ? spot.lane.outer : spot.lane.inner;
  count += static_cast<std::uint32_t>(dice.sign());
}

void wrong_kind(Schedule& s, Dice& dice) {
  any_spot(s, dice).step().kind = static_cast<StepKind>(dice.below(8));
}

const std::vector<Damage>& damages() {
  static const std::vector<Damage> all = {
      {"drop a step", drop_step},
      {"repeat a step", repeat_step},
      {"swap two steps", swap_steps},
      {"wrong peer", wrong_peer},
      {"wrong channel", wrong_channel},
      {"wrong span", wrong_span},
      {"wrong segment", wrong_segment},
      {"remove waits", remove_waits},
      {"shift a wait", shift_wait},
      {"wait for another step", wrong_wait},
      {"one more wait", add_wait},
      {"wrong source", wrong_source},
      {"wrong destination", wrong_destination},
      {"lose the own contribution", lose_first_source},
      {"fewer slots", fewer_slots},
      {"same scratch slot", same_slot},
      {"one more guard", shift_guard},
      {"cut a range", cut_range},
      {"wrong loop", wrong_loop},
      {"wrong kind", wrong_kind},
  };
  return all;
}

class DamageTest : public testing::TestWithParam<std::size_t> {};

TEST_P(DamageTest, IsRefusedOrHarmless) {
  const Damage& damage = damages()[GetParam()];
  const std::vector<Schedule> good = example::all();
  int refused = 0;
  int accepted = 0;
  for (std::uint32_t seed = 0; seed < 600; ++seed) {
    Dice dice{std::mt19937(seed)};
    const Schedule& original = good[seed % good.size()];
    Schedule broken = original;
    damage.apply(broken, dice);
    if (broken == original) continue;
    const Result<CheckReport> result = check(broken);
    if (result) {
      ++accepted;
      ASSERT_TRUE(example::comes_out_right(broken, 12)) << damage.name << ", seed " << seed;
      continue;
    }
    ++refused;
    for (const char* word : {"rank ", "lane", "step"}) {
      ASSERT_THAT(result.error().what, testing::HasSubstr(word)) << damage.name << ", seed " << seed;
    }
  }
  EXPECT_GT(refused, 5) << damage.name << "; " << accepted << " accepted";
  RecordProperty("refused", refused);
  RecordProperty("accepted", accepted);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DamageTest, testing::Range<std::size_t>(0, damages().size()), [](const auto& kind) {
  std::string name = damages()[kind.param].name;
  std::ranges::replace(name, ' ', '_');
  return name;
});

TEST(Damage, TheExamplesThemselvesComeOutRight) {
  for (const Schedule& s : example::all()) EXPECT_TRUE(example::comes_out_right(s, 30)) << to_text(s.header.collective);
}

// Long loops are judged in short form: the verdict must be that of the full run.
TEST(Damage, ShortAndFullRunsAgree) {
  const std::vector<Schedule> good = {example::direct(3, 20, 2, {1, 2, 3}), example::star(3, 20), example::ring(3, 20),
                                      example::chain(Collective::kReduce, 3, 20)};
  for (std::uint32_t seed = 0; seed < 1500; ++seed) {
    Dice dice{std::mt19937(seed)};
    Schedule broken = good[seed % good.size()];
    const Damage& damage = damages()[dice.below(damages().size())];
    damage.apply(broken, dice);
    const bool accepted = check(broken).has_value();
    ASSERT_EQ(accepted, check(broken, {.full = true}).has_value()) << damage.name << ", seed " << seed;
  }
}

}  // namespace
}  // namespace r2ccl
