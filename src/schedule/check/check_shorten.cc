#include "schedule/check/check_shorten.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

namespace r2ccl {
namespace {

constexpr std::uint32_t kMostSlots = 2;

// A lane whose inner loop goes through the segments, once for each of its outer iterations.
bool sweeps(const Lane& lane, std::uint32_t segments) {
  if (lane.steps.empty() || lane.inner != segments || lane.inner_begin != 0 || lane.inner_end < lane.steps.size()) {
    return false;
  }
  return std::ranges::all_of(lane.steps, [](const Step& step) { return step.segment == Index{.by_inner = 1}; });
}

void insert_once(std::vector<std::uint32_t>& sorted, std::uint32_t number) {
  const auto at = std::ranges::lower_bound(sorted, number);
  if (at == sorted.end() || *at != number) sorted.insert(at, number);
}

// What the lanes have in common, gathered step by step.
class Pattern {
 public:
  explicit Pattern(const PlanHeader& header) : segments_(header.layout.segments), slots_(header.slots) {}

  // False: they do not follow the pattern.
  bool take(const std::vector<Lane>& lanes) {
    sweeps_.clear();
    for (const Lane& lane : lanes) sweeps_.push_back(sweeps(lane, segments_));
    std::vector<std::uint32_t> sent;
    std::vector<std::uint32_t> received;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      if (lanes[i].steps.empty()) continue;
      if (!(sweeps_[i] ? take_sweep(lanes[i], sent, received) : take(lanes[i]))) return false;
    }
    return true;
  }

  // The channels of sweeps are nobody else's.
  bool channels_apart() const {
    return std::ranges::none_of(
        channels_, [this](std::uint32_t channel) { return std::ranges::binary_search(sweep_channels_, channel); });
  }
  const std::vector<std::uint32_t>& sweep_channels() const { return sweep_channels_; }

  std::uint64_t least_segments() const {
    const std::uint64_t least =
        start_ + end_ + depth_ + (std::min(slots_, kMostSlots) + std::uint64_t{1}) * period_ + 2;
    return least + (segments_ - least % period_ + std::uint64_t{period_} * segments_) % period_;
  }

  bool near_end(std::uint32_t bound) const { return bound > segments_ / 2; }

 private:
  bool take(const Lane& lane) {
    if (lane.outer < segments_ || lane.outer - segments_ > segments_ / 2) return false;
    depth_ = std::max<std::uint64_t>(depth_, lane.outer - segments_);
    return std::ranges::all_of(lane.steps, [this](const Step& s) { return take(s); });
  }

  // At most one message of a connection for each segment in an outer iteration, and nothing that goes from segment to
  // segment.
  bool take_sweep(const Lane& lane, std::vector<std::uint32_t>& sent, std::vector<std::uint32_t>& received) {
    if (slots_ < segments_) return false;
    std::uint32_t before = 0;
    std::vector<std::uint32_t> in;
    std::vector<std::uint32_t> out;
    for (const Step& s : lane.steps) {
      if (s.outer_begin < before || s.outer_end < s.outer_begin) return false;
      before = s.outer_end;
      if (receives(s.kind)) insert_once(in, s.channel_in);
      if (sends(s.kind)) insert_once(out, s.channel_out);
      if (!follows_segment(s)) return false;
    }
    for (auto& [used, all] : {std::pair{&in, &received}, std::pair{&out, &sent}}) {
      for (const std::uint32_t channel : *used) {
        if (std::ranges::find(*all, channel) != all->end()) return false;  // another lane of this rank has it
        all->push_back(channel);
        insert_once(sweep_channels_, channel);
      }
    }
    return true;
  }

  bool follows_segment(const Step& s) const {
    const auto stays = [](const Index& index) { return index.by_inner == 0; };
    const auto uses_scratch = [](const Operand& operand) { return operand.buffer == Buffer::kScratch; };
    if (!stays(s.from) || !stays(s.to) || !stays(s.span) || s.has_first) return false;
    if (uses_scratch(s.source) || uses_scratch(s.destination)) return false;
    return std::ranges::all_of(s.guards, [&](const Guard& guard) { return stays(guard.value); }) &&
           std::ranges::all_of(s.waits, [this](const Wait& w) {
             return w.lane < sweeps_.size() && sweeps_[w.lane] && w.inner_offset == 0;
           });
  }

  bool take(const Step& s) {
    const Index& g = s.segment;
    if (g.by_outer != 1 || g.by_inner != 0 || g.modulo != 0 || g.scale != 1) return false;
    depth_ = std::max(depth_, size(std::int64_t{g.base} + g.offset));
    take_bound(s.outer_begin);
    take_bound(s.outer_end);
    for (const Wait& w : s.waits) {
      if (w.lane >= sweeps_.size() || !sweeps_[w.lane]) {
        depth_ = std::max(depth_, size(w.outer_offset));
      } else if (w.one_inner || s.outer_end != 1) {
        return false;
      }
    }
    if (receives(s.kind)) insert_once(channels_, s.channel_in);
    if (sends(s.kind)) insert_once(channels_, s.channel_out);
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

  std::uint32_t segments_;
  std::uint32_t slots_;
  std::vector<bool> sweeps_;                   // lanes of the rank under way
  std::vector<std::uint32_t> sweep_channels_;  // sorted, like those of the other lanes
  std::vector<std::uint32_t> channels_;
  std::uint64_t start_ = 0;  // the furthest that a range begins or ends from the start
  std::uint64_t end_ = 0;    // … from the end
  std::uint64_t depth_ = 0;  // the furthest that two iterations which touch are apart
  std::uint64_t period_ = 1;
};

}  // namespace

std::optional<Shorter> shortened(const Schedule& schedule, std::uint32_t ranks) {
  const std::uint32_t segments = schedule.header.layout.segments;
  const auto first = schedule.lanes.begin();
  const auto last = first + static_cast<std::ptrdiff_t>(std::min<std::size_t>(ranks, schedule.lanes.size()));
  Pattern pattern(schedule.header);
  if (!std::all_of(first, last, [&](const std::vector<Lane>& lanes) { return pattern.take(lanes); })) {
    return std::nullopt;
  }
  const std::uint64_t least = pattern.least_segments();
  if (least >= segments || !pattern.channels_apart()) return std::nullopt;
  const auto cut = static_cast<std::uint32_t>(segments - least);
  const auto move = [&](std::uint32_t& bound) {
    if (bound != UINT32_MAX && pattern.near_end(bound)) bound -= cut;
  };
  Shorter result{.schedule = {schedule.header, {first, last}},
                 .sweep_channels = pattern.sweep_channels(),
                 .sweep_slots = schedule.header.slots / segments * (segments - cut)};
  result.schedule.header.layout.segments -= cut;
  result.schedule.header.slots = std::min(result.schedule.header.slots, kMostSlots);
  for (std::vector<Lane>& lanes : result.schedule.lanes) {
    for (Lane& lane : lanes) {
      if (lane.steps.empty()) continue;
      if (sweeps(lane, segments)) {
        lane.inner -= cut;
        continue;
      }
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
