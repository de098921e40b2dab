#pragma once
// Schedules that make no sense but are well formed, in every corner of their structures, for tests. The same seed gives
// the same schedule.

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "schedule/schedule.h"

namespace r2ccl::testing {

class RandomSchedule final {
 public:
  explicit RandomSchedule(std::uint64_t seed) : bits_(seed) {}

  Schedule make() {
    Schedule s;
    s.header = header();
    s.lanes.resize(s.header.ranks);
    for (auto& lanes : s.lanes) {
      lanes.resize(below(4));
      for (Lane& l : lanes) l = lane(static_cast<std::uint32_t>(lanes.size()));
    }
    return s;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return bits_() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  template <class T>
  T pick(std::initializer_list<T> of) {
    return of.begin()[below(of.size())];
  }
  // Mostly small; now and then anything that fits.
  std::int32_t integer() {
    if (one_in(8)) return pick({INT32_MIN, INT32_MAX, static_cast<std::int32_t>(bits_())});
    return static_cast<std::int32_t>(below(9)) - 4;
  }
  std::uint32_t natural() {
    if (one_in(8)) return pick({UINT32_MAX, UINT32_MAX - 1, static_cast<std::uint32_t>(bits_())});
    return static_cast<std::uint32_t>(below(5));
  }

  std::string name() {
    static constexpr std::string_view kChars = "ab3.-_Z";
    std::string out;
    for (std::uint64_t n = below(4); n > 0; --n) out += kChars[below(kChars.size())];
    return out;
  }

  PlanHeader header() {
    PlanHeader f;
    f.collective = static_cast<Collective>(below(8));
    f.algorithm = name();
    f.ranks_per_server = static_cast<std::uint32_t>(1 + below(3));
    const auto servers = static_cast<std::uint32_t>(1 + below(4));
    f.ranks = servers * f.ranks_per_server;
    f.root = static_cast<std::uint32_t>(below(f.ranks));
    f.layout = layout();
    f.slots = natural();
    f.scratch_slots = natural();
    const auto rails = static_cast<std::uint32_t>(1 + below(4));
    if (one_in(2)) f.shares = shares(servers, rails);
    if (one_in(2)) f.nic_of_rail.resize(std::size_t{servers} * rails);
    for (std::uint8_t& nic : f.nic_of_rail) nic = static_cast<std::uint8_t>(below(3));
    return f;
  }

  Layout layout() {
    const auto pieces = static_cast<std::uint32_t>(1 + below(6));
    Layout l = Layout::equal(pieces);
    if (one_in(2)) {
      for (std::uint32_t i = 0; i < pieces; ++i) l.bounds[i + 1] = l.bounds[i] + below(one_in(4) ? 1ull << 60 : 4);
      if (l.bounds.back() == 0) l.bounds.back() = 1;
    }
    l.segments = static_cast<std::uint32_t>(1 + below(100));
    l.order = pick({Layout::Order::kSegmentsOutside, Layout::Order::kSegmentsInside});
    for (std::uint64_t n = below(4); n > 0; --n) {
      const auto first = static_cast<std::uint32_t>(below(pieces));
      l.spans.push_back({first, static_cast<std::uint32_t>(1 + below(pieces - first))});
    }
    return l;
  }

  RailShares shares(std::uint32_t servers, std::uint32_t rails) {
    RailShares s{servers, rails, std::vector<std::uint16_t>(std::size_t{servers} * servers * rails)};
    for (std::size_t u = 0; u < servers; ++u) {
      for (std::size_t v = u; v < servers; ++v) {
        const auto some = static_cast<std::uint16_t>(pick<std::uint32_t>({0, 0, 1, kShareUnit}));
        for (std::size_t k = 0; k < rails; ++k) {
          const auto share = static_cast<std::uint16_t>(one_in(4) ? below(kShareUnit + 1) : some);
          s.share[(u * servers + v) * rails + k] = s.share[(v * servers + u) * rails + k] = share;
        }
      }
    }
    return s;
  }

  Lane lane(std::uint32_t lanes) {
    Lane l;
    l.name = name();
    if (one_in(2)) l.outer = natural();
    if (one_in(2)) l.inner = natural();
    if (one_in(3)) l.inner_begin = natural();
    if (one_in(3)) l.inner_end = natural();
    if (one_in(2)) l.rail = static_cast<std::int32_t>(below(64));
    l.steps.resize(below(6));
    for (Step& s : l.steps) s = step(lanes);
    return l;
  }

  Index index() {
    if (one_in(4)) return {};
    Index x{.base = integer()};
    if (one_in(2)) x.by_outer = integer();
    if (one_in(2)) x.by_inner = integer();
    if (one_in(3)) x.modulo = natural();
    if (one_in(4)) x.scale = integer();
    if (one_in(4)) x.offset = integer();
    return x;
  }

  Operand operand() { return {static_cast<Buffer>(below(4)), one_in(2) ? index() : Index{}}; }

  Step step(std::uint32_t lanes) {
    Step s;
    s.kind = static_cast<StepKind>(below(8));
    s.from = index();
    s.to = index();
    s.channel_in = natural();
    s.channel_out = natural();
    s.span = index();
    s.segment = index();
    s.source = operand();
    s.destination = operand();
    s.has_first = one_in(3);
    if (s.has_first) s.first_source = static_cast<Buffer>(below(4));
    if (one_in(3)) s.outer_begin = natural();
    if (one_in(3)) s.outer_end = natural();
    for (std::uint64_t n = one_in(3) ? below(3) : 0; n > 0; --n) {
      s.guards.push_back({index(), one_in(4) ? static_cast<std::int64_t>(bits_()) : integer()});
    }
    for (std::uint64_t n = one_in(2) ? below(3) : 0; n > 0; --n) {
      Wait w{.lane = one_in(4) ? natural() : static_cast<std::uint32_t>(below(lanes)),
             .step = natural(),
             .outer_offset = integer()};
      w.one_inner = one_in(2);
      if (w.one_inner) w.inner_offset = integer();
      s.waits.push_back(w);
    }
    return s;
  }

  std::mt19937_64 bits_;
};

inline Schedule random_schedule(std::uint64_t seed) {
  return RandomSchedule(seed).make();
}

}  // namespace r2ccl::testing
