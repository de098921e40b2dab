#include "executor/needs.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace r2ccl {
namespace {

// How a lane uses a connection.
struct SpanUse {
  std::uint64_t key = 0;
  std::uint32_t lane = 0;
  std::uint64_t messages = 0;
  std::uint64_t staged_elements = 0;
};

// Segments of a span differ by at most two elements: each of the two cuts rounds both its ends down.
std::uint64_t largest_range(const Layout& layout, std::uint32_t span_number, std::uint64_t count) {
  const Span s = layout.span(span_number);
  if (layout.bounds[s.first + s.count] == layout.bounds[s.first]) return 0;
  const std::uint64_t size = layout.range(span_number, 0, count).size();
  return layout.segments == 1 ? size : std::min(count, size + 2);
}

bool alike(const Step& step) {
  return step.from.by_outer == 0 && step.to.by_outer == 0 && step.span.by_outer == 0 &&
         std::ranges::all_of(step.guards, [](const Guard& g) { return g.value.by_outer == 0; });
}

class Collector {
 public:
  Collector(const PlanHeader& header, std::uint64_t count) : header_(header), count_(count) {}

  void take(const Lane& lane, std::uint32_t number) {
    const std::size_t end = std::min<std::size_t>(lane.inner_end, lane.steps.size());
    for (std::size_t i = 0; i < lane.steps.size(); ++i) {
      const bool inside = i >= lane.inner_begin && i < end;
      take(lane.steps[i], number, lane.outer, inside ? lane.inner : 1);
    }
  }

  Needs needs(std::size_t lanes) {
    Needs needs;
    needs.ahead.assign(lanes, 0);
    needs.scratch_elements = scratch_elements_;
    std::ranges::sort(relays_);
    const auto repeated = std::ranges::unique(relays_);
    relays_.erase(repeated.begin(), repeated.end());
    needs.in = folded(in_, &needs.ahead);
    needs.out = folded(out_, nullptr);
    return needs;
  }

 private:
  void take(const Step& step, std::uint32_t lane, std::uint32_t outer_count, std::uint32_t inner_count) {
    const std::uint32_t end = std::min(outer_count, step.outer_end);
    if (step.outer_begin >= end) return;
    const bool once = alike(step);
    const std::uint64_t times = once ? end - step.outer_begin : 1;
    for (std::uint32_t outer = step.outer_begin; outer < (once ? step.outer_begin + 1 : end); ++outer) {
      for (std::uint32_t inner = 0; inner < inner_count; ++inner) {
        const auto holds = [&](const Guard& g) { return g.value.at(outer, inner) == g.equals; };
        if (std::ranges::all_of(step.guards, holds)) take(step, lane, outer, inner, times);
      }
    }
  }

  void take(const Step& step, std::uint32_t lane, std::uint32_t outer, std::uint32_t inner, std::uint64_t times) {
    const auto span = static_cast<std::uint32_t>(step.span.at(outer, inner));
    const std::uint64_t size = largest_range(header_.layout, span, count_);
    if (size == 0) return;
    if (step.destination.buffer == Buffer::kScratch) scratch_elements_ = std::max(scratch_elements_, size);
    const auto key = [&](const Index& peer, std::uint32_t channel) {
      return connection_key(static_cast<std::uint64_t>(peer.at(outer, inner)), channel);
    };
    const std::uint64_t from = key(step.from, step.channel_in);
    const std::uint64_t to = key(step.to, step.channel_out);
    if (receives(step.kind)) note(in_, {from, lane, times, lands_in_place(step) ? 0 : size});
    if (sends(step.kind)) note(out_, {to, lane, times, 0});
    if (relays(step) && (relays_.empty() || relays_.back() != std::pair(from, to))) relays_.emplace_back(from, to);
  }

  static void add(SpanUse& to, const SpanUse& use) {
    to.messages += use.messages;
    to.staged_elements = std::max(to.staged_elements, use.staged_elements);
  }
  static void note(std::vector<SpanUse>& uses, const SpanUse& use) {
    if (!uses.empty() && uses.back().key == use.key && uses.back().lane == use.lane) {
      add(uses.back(), use);
    } else {
      uses.push_back(use);
    }
  }

  // How many connections relay messages of this incoming one.
  std::uint64_t relays_of(std::uint64_t key) const {
    const auto first = std::ranges::lower_bound(relays_, std::pair(key, std::uint64_t{0}));
    const auto last = std::ranges::upper_bound(relays_, std::pair(key, UINT64_MAX));
    return static_cast<std::uint64_t>(last - first);
  }

  // `ahead`, if given, learns how many receives each lane can have posted; on a shared connection that is one.
  std::vector<ConnectionNeed> folded(std::vector<SpanUse>& uses, std::vector<std::uint32_t>* ahead) const {
    const auto key = [](const SpanUse& use) { return std::tuple(use.key, use.lane); };
    if (!std::ranges::is_sorted(uses, {}, key)) std::ranges::sort(uses, {}, key);
    std::vector<ConnectionNeed> all;
    all.reserve(uses.size());
    for (std::size_t i = 0; i < uses.size();) {
      const std::size_t begin = i;
      SpanUse sum = uses[i];
      bool shared = false;
      for (++i; i < uses.size() && uses[i].key == sum.key; ++i) {
        shared = shared || uses[i].lane != sum.lane;
        add(sum, uses[i]);
      }
      const std::uint64_t slots = header_.slots * (1 + (ahead == nullptr ? 0 : relays_of(sum.key)));
      const auto depth = static_cast<std::uint32_t>(std::min(slots, sum.messages));
      all.push_back({sum.key, depth, shared, sum.staged_elements});
      if (ahead == nullptr) continue;
      for (std::size_t u = begin; u < (shared ? i : begin + 1); ++u) (*ahead)[uses[u].lane] += shared ? 1 : depth;
    }
    return all;
  }

  const PlanHeader& header_;
  std::uint64_t count_;
  std::vector<SpanUse> in_;
  std::vector<SpanUse> out_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> relays_;  // incoming, outgoing
  std::uint64_t scratch_elements_ = 0;
};

}  // namespace

Needs needs_of(const PlanHeader& header, std::span<const Lane> lanes, std::uint64_t count) {
  Collector collector(header, count);
  for (std::uint32_t l = 0; l < lanes.size(); ++l) collector.take(lanes[l], l);
  return collector.needs(lanes.size());
}

}  // namespace r2ccl
