#include "schedule/check/check_shape.h"

#include <fmt/format.h>

#include <algorithm>

namespace r2ccl {
namespace {

// Beyond these a check would take minutes or more memory than a machine should give to it.
constexpr std::uint32_t kMaxRanks = 1 << 16;
constexpr std::uint32_t kMaxLanes = 256;  // of one rank
constexpr std::uint64_t kMaxVisits = std::uint64_t{1} << 31;
constexpr std::uint64_t kMaxCells = std::uint64_t{3} << 24;  // of all ranks
constexpr std::uint32_t kMaxSpan = 1 << 24;

std::unexpected<Error> refuse(std::string what) {
  return fail(Fault::kMisuse, std::move(what));
}

Status check_layout(const PlanHeader& header) {
  const Layout& layout = header.layout;
  if (layout.bounds.size() < 2 || layout.bounds.size() > kMaxSpan)
    return refuse("the layout has no pieces, or too many");
  if (layout.bounds.front() != 0 || layout.bounds.back() == 0 || !std::ranges::is_sorted(layout.bounds)) {
    return refuse("the bounds of the layout must rise from 0");
  }
  if (layout.segments == 0) return refuse("the layout has no segments");
  if (layout.spans.size() > kMaxSpan) return refuse("the layout has too many spans");
  for (std::size_t i = 0; i < layout.spans.size(); ++i) {
    const Span s = layout.spans[i];
    if (s.count == 0 || s.first >= layout.pieces() || s.count > layout.pieces() - s.first) {
      return refuse(fmt::format("span {} is outside the {} pieces", layout.pieces() + i, layout.pieces()));
    }
    // Otherwise a segment of the span is not made of the segments of its pieces.
    if (s.count > 1 && layout.segments > 1 && layout.order == Layout::Order::kSegmentsInside) {
      return refuse(
          fmt::format("span {} has several pieces, which are cut into segments one by one", layout.pieces() + i));
    }
  }
  return {};
}

// A block must be one run of elements, the same length for each rank, cut alike everywhere.
Status check_blocks(const PlanHeader& header) {
  const Layout& layout = header.layout;
  if (layout.pieces() % header.ranks != 0) {
    return refuse(fmt::format("{} pieces are not blocks of {} ranks", layout.pieces(), header.ranks));
  }
  if (layout.segments > 1 && layout.order == Layout::Order::kSegmentsOutside) {
    return refuse("blocks must not be cut by segments of the whole vector");
  }
  const std::uint32_t width = layout.pieces() / header.ranks;
  const std::uint64_t block = layout.bounds[width];
  for (std::uint32_t i = 0; i <= layout.pieces(); ++i) {
    if (layout.bounds[i] != block * (i / width) + layout.bounds[i % width]) {
      return refuse(fmt::format("piece {} is not at the same place in its block as in the first one", i));
    }
  }
  return {};
}

Status check_frame(const Schedule& schedule) {
  const PlanHeader& header = schedule.header;
  if (header.ranks == 0 || header.ranks > kMaxRanks)
    return refuse(fmt::format("{} ranks can not be checked", header.ranks));
  if (schedule.lanes.size() != header.ranks) {
    return refuse(fmt::format("there are lanes of {} ranks, not of {}", schedule.lanes.size(), header.ranks));
  }
  if (header.root >= header.ranks)
    return refuse(fmt::format("root {} is not one of {} ranks", header.root, header.ranks));
  if (header.slots == 0) return refuse("a connection needs at least one slot");
  if (Status s = check_layout(header); !s) return s;
  return has_blocks(header.collective) ? check_blocks(header) : Status{};
}

// Neither the sum nor its multiple may leave 64 bits; loop counts are below 2^32.
bool fits(const Index& index, const LoopShape& shape) {
  __extension__ using Wide = __int128;
  const auto size = [](Wide x) { return x < 0 ? -x : x; };
  constexpr Wide kMost = Wide{1} << 61;
  Wide value = size(index.base) + size(index.by_outer) * shape.outer_count + size(index.by_inner) * shape.inner_count;
  if (value > kMost) return false;
  if (index.modulo != 0) value = index.modulo;
  return value * size(index.scale) + size(index.offset) <= kMost;
}

bool fits(const Step& s, const LoopShape& shape) {
  if (!fits(s.from, shape) || !fits(s.to, shape) || !fits(s.span, shape) || !fits(s.segment, shape)) return false;
  if (!fits(s.source.slot, shape) || !fits(s.destination.slot, shape)) return false;
  return std::ranges::all_of(s.guards, [&](const Guard& g) {
    return fits(g.value, shape) && g.equals > INT64_MIN / 4 && g.equals < INT64_MAX / 4;
  });
}

Status check_lane(const std::vector<Lane>& lanes, const Lane& lane, const LoopShape& shape, const std::string& where) {
  for (std::size_t i = 0; i < lane.steps.size(); ++i) {
    const Step& s = lane.steps[i];
    if (s.kind > StepKind::kRecvReduceCopySend) return refuse(fmt::format("{}, step {}: unknown kind", where, i));
    if (!fits(s, shape)) return refuse(fmt::format("{}, step {}: an index leaves 64 bits", where, i));
    for (const Wait& w : s.waits) {
      if (w.lane >= lanes.size() || w.step >= lanes[w.lane].steps.size()) {
        return refuse(
            fmt::format("{}, step {}: waits for step {} of lane {}, which does not exist", where, i, w.step, w.lane));
      }
    }
  }
  return {};
}

Status check_lanes(const Schedule& schedule) {
  __extension__ using Wide = unsigned __int128;
  Wide visits = 0;
  for (std::size_t rank = 0; rank < schedule.lanes.size(); ++rank) {
    const std::vector<Lane>& lanes = schedule.lanes[rank];
    if (lanes.size() > kMaxLanes)
      return refuse(fmt::format("rank {} has {} lanes, more than {}", rank, lanes.size(), kMaxLanes));
    for (const Lane& lane : lanes) {
      const LoopShape shape(lane);
      const std::string where = fmt::format("rank {}, lane {}", rank, lane.name);
      // One visit of an outer iteration costs something even where its inner loop is empty.
      if (!lane.steps.empty()) visits += Wide{std::max<std::uint64_t>(shape.per_outer, 1)} * lane.outer;
      if (visits > kMaxVisits) return refuse(fmt::format("{}: its loops are too long to be checked", where));
      if (Status s = check_lane(lanes, lane, shape, where); !s) return s;
    }
  }
  return {};
}

Geometry geometry_of(const PlanHeader& header) {
  const Layout& layout = header.layout;
  Geometry g;
  g.segments = layout.segments;
  std::vector<std::uint32_t> before{0};  // non-empty pieces before each piece
  const std::uint32_t width = has_blocks(header.collective) ? layout.pieces() / header.ranks : layout.pieces();
  for (std::uint32_t i = 0; i < layout.pieces(); ++i) {
    if (layout.bounds[i] != layout.bounds[i + 1]) {
      g.number.push_back(i);
      g.owner.push_back(i / width);
      g.place.push_back(i % width);
    }
    before.push_back(static_cast<std::uint32_t>(g.number.size()));
  }
  g.pieces = before.back();
  for (std::uint32_t i = 0; i < layout.span_count(); ++i) {
    const Span s = layout.span(i);
    g.spans.push_back({before[s.first], before[s.first + s.count] - before[s.first]});
  }
  return g;
}

// The most pieces that a step can put into a scratch slot. Only an upper bound where its span is not fixed.
std::uint32_t scratch_width_of(const Step& s, const LoopShape& shape, const Layout& layout, const Geometry& g) {
  if (s.source.buffer != Buffer::kScratch && s.destination.buffer != Buffer::kScratch &&
      (!s.has_first || s.first_source != Buffer::kScratch)) {
    return 0;
  }
  const std::int64_t first = s.span.at(0, 0);
  const bool moves = s.span.by_outer != 0 || s.span.by_inner != 0;
  if (!moves) return first >= 0 && first < layout.span_count() ? g.spans[static_cast<std::size_t>(first)].count : 1;
  const std::int64_t most =
      s.span.modulo != 0
          ? std::max(std::int64_t{0}, std::int64_t{s.span.scale} * (std::int64_t{s.span.modulo} - 1)) + s.span.offset
          : std::max({first, s.span.at(shape.outer_count, 0), s.span.at(0, shape.inner_count),
                      s.span.at(shape.outer_count, shape.inner_count)});
  if (most < layout.pieces()) return 1;
  return std::ranges::max_element(g.spans, {}, &Span::count)->count;
}

std::uint32_t scratch_width_of(const Schedule& schedule, const Geometry& g) {
  std::uint32_t width = 0;
  for (const std::vector<Lane>& lanes : schedule.lanes) {
    for (const Lane& lane : lanes) {
      for (const Step& s : lane.steps) {
        width = std::max(width, scratch_width_of(s, LoopShape(lane), schedule.header.layout, g));
      }
    }
  }
  return width;
}

}  // namespace

Windows windows_of(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return {Window::kAll, Window::kAll};
    case Collective::kReduceScatter:
      return {Window::kAll, Window::kOwnBlock};
    case Collective::kAllGather:
      return {Window::kOwnBlock, Window::kAll};
    case Collective::kBroadcast:
      return {Window::kRoot, Window::kAll};
    case Collective::kReduce:
      return {Window::kAll, Window::kRoot};
    case Collective::kGather:
      return {Window::kOwnBlock, Window::kRoot};
    case Collective::kScatter:
      return {Window::kRoot, Window::kOwnBlock};
    case Collective::kAllToAll:
      return {Window::kAll, Window::kAll};
  }
  return {};
}

bool has_blocks(Collective collective) {
  return collective != Collective::kAllReduce && collective != Collective::kBroadcast &&
         collective != Collective::kReduce;
}

LoopShape::LoopShape(const Lane& lane) : outer_count(lane.outer) {
  const auto steps = static_cast<std::uint32_t>(lane.steps.size());
  end = std::min(lane.inner_end, steps);
  begin = lane.inner_begin;
  inner_count = lane.inner;
  if (begin >= end) {
    begin = end = steps;
    inner_count = 1;
  }
  per_outer = steps - (end - begin) + std::uint64_t{inner_count} * (end - begin);
}

LoopShape::Place LoopShape::place(std::uint64_t position) const {
  Place p;
  p.outer = static_cast<std::uint32_t>(position / per_outer);
  const std::uint64_t in_outer = position % per_outer;
  const std::uint64_t loop = std::uint64_t{inner_count} * (end - begin);
  if (in_outer < begin) {
    p.step = static_cast<std::uint32_t>(in_outer);
  } else if (in_outer < begin + loop) {
    p.inner = static_cast<std::uint32_t>((in_outer - begin) / (end - begin));
    p.step = begin + static_cast<std::uint32_t>((in_outer - begin) % (end - begin));
  } else {
    p.step = end + static_cast<std::uint32_t>(in_outer - begin - loop);
  }
  return p;
}

Result<Geometry> shape_of(const Schedule& schedule) {
  if (Status s = check_frame(schedule); !s) return std::unexpected(s.error());
  if (Status s = check_lanes(schedule); !s) return std::unexpected(s.error());
  Geometry g = geometry_of(schedule.header);
  g.scratch_width = scratch_width_of(schedule, g);
  __extension__ using Wide = unsigned __int128;
  const Wide of_rank = Wide{g.pieces} * g.segments + Wide{schedule.header.scratch_slots} * g.scratch_width;
  if (of_rank * schedule.header.ranks > kMaxCells)
    return refuse("too many pieces, segments and scratch slots to be checked");
  return g;
}

}  // namespace r2ccl
