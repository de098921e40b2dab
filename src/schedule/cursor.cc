#include "schedule/cursor.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace r2ccl {
namespace {

// Not reached by any counter: sums of products of 32-bit numbers that the checker has bounded.
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();

std::int64_t reduced(std::int64_t value, std::uint32_t modulo) {
  if (modulo == 0) return value;
  value %= modulo;
  return value < 0 ? value + modulo : value;
}

}  // namespace

LaneCursor::LaneCursor(const Lane& lane)
    : lane_(&lane),
      inner_end_(std::min(lane.inner_end, static_cast<std::uint32_t>(lane.steps.size()))),
      ran_(lane.steps.size(), 0) {
  const bool guarded = std::ranges::any_of(lane.steps, [](const Step& s) { return !s.guards.empty(); });
  if (guarded) {
    for (const Step& s : lane.steps) {
      first_counter_.push_back(static_cast<std::uint32_t>(counters_.size()));
      for (const Guard& g : s.guards) add_counter(g);
    }
    first_counter_.push_back(static_cast<std::uint32_t>(counters_.size()));
  }
  if (lane.steps.empty()) outer_ = lane.outer;
  leave_empty_loop();
  if (!done() && step_ >= lane.steps.size()) outer_ = lane.outer;  // nothing but an empty inner loop
  skip_idle();
}

void LaneCursor::add_counter(const Guard& guard) {
  const Index& i = guard.value;
  Counter c{.value = reduced(i.base, i.modulo),
            .start = reduced(i.base, i.modulo),
            .by_inner = reduced(i.by_inner, i.modulo),
            .by_outer = reduced(i.by_outer, i.modulo),
            .modulo = i.modulo == 0 ? std::numeric_limits<std::int64_t>::max() : std::int64_t{i.modulo},
            .wanted = kNever};
  const std::int64_t scaled = guard.equals - i.offset;
  if (i.scale == 0) {
    if (scaled == 0) return;  // always holds
  } else if (scaled % i.scale == 0) {
    c.wanted = scaled / i.scale;
  }
  counters_.push_back(c);
}

bool LaneCursor::runs_here() const {
  const Step& s = step();
  if (outer_ < s.outer_begin || outer_ >= s.outer_end) return false;
  if (first_counter_.empty()) return true;
  for (std::uint32_t i = first_counter_[step_]; i != first_counter_[step_ + 1]; ++i) {
    const Counter& c = counters_[i];
    if ((inside(step_) ? c.value : c.start) != c.wanted) return false;
  }
  return true;
}

void LaneCursor::next_inner() {
  for (Counter& c : counters_) {
    c.value += c.by_inner;
    if (c.value >= c.modulo) c.value -= c.modulo;
  }
}

void LaneCursor::next_outer() {
  step_ = 0;
  inner_ = 0;
  ++outer_;
  std::ranges::fill(ran_, std::uint8_t{0});
  for (Counter& c : counters_) {
    c.start += c.by_outer;
    if (c.start >= c.modulo) c.start -= c.modulo;
    c.value = c.start;
  }
}

void LaneCursor::leave_empty_loop() {
  if (lane_->inner == 0 && inside(step_)) step_ = inner_end_;
}

void LaneCursor::advance() {
  ++step_;
  if (step_ == inner_end_ && inner_end_ > lane_->inner_begin) {
    if (inner_ + 1 < lane_->inner) {
      ++inner_;
      step_ = lane_->inner_begin;
      next_inner();
      return;
    }
    inner_ = 0;
  }
  leave_empty_loop();
  if (step_ >= lane_->steps.size()) {
    next_outer();
    leave_empty_loop();
  }
}

void LaneCursor::skip_idle() {
  while (!done() && !runs_here()) advance();
}

void LaneCursor::next() {
  ran_[step_] = 1;
  advance();
  skip_idle();
}

bool LaneCursor::passed(std::uint32_t step, std::uint32_t outer, std::uint32_t inner) const {
  if (done() || outer_ != outer) return done() || outer_ > outer;
  if (!inside(step) || !inside(step_)) return step_ > step;
  return inner_ != inner ? inner_ > inner : step_ > step;
}

bool LaneCursor::passed(std::uint32_t step, std::uint32_t outer) const {
  return passed(step, outer, inside(step) && lane_->inner > 0 ? lane_->inner - 1 : 0);
}

}  // namespace r2ccl
