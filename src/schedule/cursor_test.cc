#include "schedule/cursor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <tuple>
#include <vector>

namespace r2ccl {
namespace {

using Visit = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, Buffer>;  // outer, inner, step, source

bool runs(const Step& s, std::uint32_t outer, std::uint32_t inner) {
  if (outer < s.outer_begin || outer >= s.outer_end) return false;
  return std::ranges::all_of(s.guards, [&](const Guard& g) { return g.value.at(outer, inner) == g.equals; });
}

// The loops of schedule.h as they are written there.
std::vector<Visit> plain_walk(const Lane& lane) {
  std::vector<Visit> visits;
  const auto steps = static_cast<std::uint32_t>(lane.steps.size());
  const std::uint32_t end = std::min(lane.inner_end, steps);
  const std::uint32_t begin = std::min(lane.inner_begin, end);
  for (std::uint32_t outer = 0; outer < lane.outer; ++outer) {
    std::vector<bool> ran(steps, false);
    const auto visit = [&](std::uint32_t step, std::uint32_t inner) {
      const Step& s = lane.steps[step];
      if (!runs(s, outer, inner)) return;
      visits.emplace_back(outer, inner, step, s.has_first && !ran[step] ? s.first_source : s.source.buffer);
      ran[step] = true;
    };
    for (std::uint32_t step = 0; step < begin; ++step) visit(step, 0);
    for (std::uint32_t inner = 0; inner < lane.inner && begin < end; ++inner) {
      for (std::uint32_t step = begin; step < end; ++step) visit(step, inner);
    }
    for (std::uint32_t step = end; step < steps; ++step) visit(step, 0);
  }
  return visits;
}

std::vector<Visit> walk(const Lane& lane) {
  std::vector<Visit> visits;
  for (LaneCursor c(lane); !c.done(); c.next()) {
    visits.emplace_back(c.outer(), c.inner(), c.step_number(), c.source());
  }
  return visits;
}

struct Dice {
  std::mt19937 engine{7};
  // In [low, high).
  template <class T>
  T in(T low, T high) {
    return static_cast<T>(low + static_cast<T>(engine() % static_cast<std::uint32_t>(high - low)));
  }
};

Guard any_guard(Dice& dice) {
  return {.value = {.base = dice.in(-6, 7),
                    .by_outer = dice.in(-3, 4),
                    .by_inner = dice.in(-3, 4),
                    .modulo = dice.in(0U, 5U),
                    .scale = dice.in(-2, 3),
                    .offset = dice.in(-1, 2)},
          .equals = dice.in(-3, 4)};
}

Lane any_lane(Dice& dice) {
  Lane lane;
  lane.outer = dice.in(0U, 6U);
  lane.inner = dice.in(0U, 6U);
  lane.steps.resize(dice.in(0U, 5U));
  const auto steps = static_cast<std::uint32_t>(lane.steps.size());
  lane.inner_begin = dice.in(0U, steps + 1);
  lane.inner_end = dice.in(0, 2) == 0 ? UINT32_MAX : dice.in(lane.inner_begin, steps + 1);
  for (Step& s : lane.steps) {
    s.source.buffer = Buffer::kOutput;
    s.has_first = dice.in(0, 2) == 0;
    s.first_source = Buffer::kInput;
    s.outer_begin = dice.in(0U, 4U);
    s.outer_end = dice.in(0, 2) == 0 ? UINT32_MAX : dice.in(0U, 7U);
    for (int guards = dice.in(-2, 3); guards > 0; --guards) s.guards.push_back(any_guard(dice));
  }
  return lane;
}

constexpr int kLanes = 20'000;

TEST(LaneCursor, VisitsWhatTheNestedLoopsSay) {
  Dice dice;
  std::size_t visits = 0;
  for (int i = 0; i < kLanes; ++i) {
    const Lane lane = any_lane(dice);
    const std::vector<Visit> expected = plain_walk(lane);
    ASSERT_EQ(walk(lane), expected) << "lane " << i;
    visits += expected.size();
  }
  EXPECT_GT(visits, 2U * kLanes);
}

void expect_passed(const Lane& lane, const LaneCursor& c) {
  const auto place = [&](std::uint32_t step, std::uint32_t outer, std::uint32_t inner) {
    const bool in_loop = step >= lane.inner_begin && step < lane.inner_end;
    const int part = in_loop ? 1 : (step < lane.inner_begin ? 0 : 2);
    return std::tuple(outer, part, in_loop ? inner : 0, step);
  };
  const auto here = place(c.step_number(), c.outer(), c.inner());
  const std::uint32_t last = lane.inner == 0 ? 0 : lane.inner - 1;
  for (std::uint32_t outer = 0; outer < lane.outer; ++outer) {
    for (std::uint32_t step = 0; step < lane.steps.size(); ++step) {
      for (std::uint32_t inner = 0; inner <= last; ++inner) {
        ASSERT_EQ(c.passed(step, outer, inner), place(step, outer, inner) < here);
      }
      ASSERT_EQ(c.passed(step, outer), place(step, outer, last) < here);
    }
  }
}

TEST(LaneCursor, HasPassedExactlyWhatLiesBehind) {
  Dice dice;
  for (int i = 0; i < 500; ++i) {
    const Lane lane = any_lane(dice);
    for (LaneCursor c(lane); !c.done(); c.next()) expect_passed(lane, c);
  }
}

TEST(LaneCursor, TakesTheFirstSourceOncePerOuterIteration) {
  Lane lane;
  lane.outer = 2;
  lane.inner = 3;
  Step s;
  s.source.buffer = Buffer::kOutput;
  s.has_first = true;
  s.first_source = Buffer::kInput;
  s.guards = {{.value = {.by_inner = 1, .modulo = 4, .scale = 0}, .equals = 0}};
  lane.steps = {s};
  int first = 0;
  for (LaneCursor c(lane); !c.done(); c.next()) {
    EXPECT_EQ(c.source(), c.inner() == 0 ? Buffer::kInput : Buffer::kOutput);
    first += c.source() == Buffer::kInput ? 1 : 0;
  }
  EXPECT_EQ(first, 2);
}

TEST(LaneCursor, WalksMillionsOfIdleGuards) {
  Lane lane;
  lane.outer = 1000;
  lane.inner = 1000;
  Step s;
  s.guards = {{.value = {.base = 3, .by_outer = 1, .by_inner = -1, .modulo = 500}, .equals = 0}};
  lane.steps = {s, s, s};
  std::uint64_t visits = 0;
  for (LaneCursor c(lane); !c.done(); c.next()) ++visits;
  EXPECT_EQ(visits, 1000U * 2 * 3);
}

}  // namespace
}  // namespace r2ccl
