#include "schedule/check/check_shorten.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>

namespace r2ccl {
namespace {

constexpr std::uint32_t kMostSlots = 2;

// What the lanes have in common, gathered step by step.
class Pattern {
 public:
  explicit Pattern(std::uint32_t segments) : segments_(segments) {}

  // False: it does not follow the pattern.
  bool take(const Lane& lane) {
    if (lane.steps.empty()) return true;
    if (lane.outer < segments_ || lane.outer - segments_ > segments_ / 2) return false;
    depth_ = std::max<std::uint64_t>(depth_, lane.outer - segments_);
    return std::ranges::all_of(lane.steps, [this](const Step& s) { return take(s); });
  }

  std::uint64_t least_segments(std::uint32_t slots) const {
    const std::uint64_t least = start_ + end_ + depth_ + (std::min(slots, kMostSlots) + std::uint64_t{1}) * period_ + 2;
    return least + (segments_ - least % period_ + std::uint64_t{period_} * segments_) % period_;
  }

  bool near_end(std::uint32_t bound) const { return bound > segments_ / 2; }

 private:
  bool take(const Step& s) {
    const Index& g = s.segment;
    if (g.by_outer != 1 || g.by_inner != 0 || g.modulo != 0 || g.scale != 1) return false;
    depth_ = std::max(depth_, size(std::int64_t{g.base} + g.offset));
    take_bound(s.outer_begin);
    take_bound(s.outer_end);
    for (const Wait& w : s.waits) depth_ = std::max(depth_, size(w.outer_offset));
    if (!take(s.from) || !take(s.to) || !take(s.span) || !take(s.source.slot) || !take(s.destination.slot))
      return false;
    return std::ranges::all_of(s.guards, [this](const Guard& guard) { return take(guard.value); });
  }

  bool take(const Index& index) {
    if (index.by_outer == 0) return true;
    if (index.modulo == 0) return false;
    const std::uint64_t period = index.modulo / std::gcd(std::uint64_t{index.modulo}, size(index.by_outer));
    const std::uint64_t both = std::lcm(period_, period);
    if (both > segments_) return false;
    period_ = both;
    return true;
  }

  void take_bound(std::uint32_t bound) {
    if (!near_end(bound)) {
      start_ = std::max<std::uint64_t>(start_, bound);
    } else if (bound < segments_) {
      end_ = std::max<std::uint64_t>(end_, segments_ - bound);
    }
  }

  static std::uint64_t size(std::int64_t x) { return static_cast<std::uint64_t>(std::abs(x)); }

  std::uint64_t segments_;
  std::uint64_t start_ = 0;  // the furthest that a range begins or ends from the start
  std::uint64_t end_ = 0;    // … from the end
  std::uint64_t depth_ = 0;  // the furthest that two iterations which touch are apart
  std::uint64_t period_ = 1;
};

}  // namespace

std::optional<Schedule> shortened(const Schedule& schedule, std::uint32_t ranks) {
  const std::uint32_t segments = schedule.header.layout.segments;
  const std::size_t count = std::min<std::size_t>(ranks, schedule.lanes.size());
  Pattern pattern(segments);
  for (std::size_t rank = 0; rank < count; ++rank) {
    for (const Lane& lane : schedule.lanes[rank]) {
      if (!pattern.take(lane)) return std::nullopt;
    }
  }
  const std::uint64_t least = pattern.least_segments(schedule.header.slots);
  if (least >= segments) return std::nullopt;
  const auto cut = static_cast<std::uint32_t>(segments - least);
  const auto move = [&](std::uint32_t& bound) {
    if (bound != UINT32_MAX && pattern.near_end(bound)) bound -= cut;
  };
  Schedule result{schedule.header,
                  {schedule.lanes.begin(), schedule.lanes.begin() + static_cast<std::ptrdiff_t>(count)}};
  result.header.layout.segments -= cut;
  result.header.slots = std::min(result.header.slots, kMostSlots);
  for (std::vector<Lane>& lanes : result.lanes) {
    for (Lane& lane : lanes) {
      if (lane.steps.empty()) continue;
      lane.outer -= cut;
      for (Step& s : lane.steps) {
        move(s.outer_begin);
        move(s.outer_end);
      }
    }
  }
  return result;
}

}  // namespace r2ccl
