#include "sim/cluster/flat_lanes.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "base/assert.h"

namespace r2ccl::sim {
namespace {

// (from, to, channel) -> number, in the order of first use. Open addressing: a million look-ups per schedule are
// common.
class ConnectionNumbers final {
 public:
  explicit ConnectionNumbers(std::vector<FlatConnection>& connections) : connections_(connections), cells_(1 << 12) {}

  std::uint32_t of(std::uint32_t from, std::uint32_t to, std::uint32_t channel) {
    if (2 * connections_.size() >= cells_.size()) grow();
    Cell& cell = find(cells_, from, to, channel);
    if (cell.number == kNoIndex) {
      cell = {from, to, channel, static_cast<std::uint32_t>(connections_.size())};
      connections_.push_back({from, to});
    }
    return cell.number;
  }

 private:
  struct Cell {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint32_t channel = 0;
    std::uint32_t number = kNoIndex;
  };

  static Cell& find(std::vector<Cell>& cells, std::uint32_t from, std::uint32_t to, std::uint32_t channel) {
    std::uint64_t hash = ((std::uint64_t{from} << 32) + to) * 0x9e3779b97f4a7c15 + channel * 0xc2b2ae3d27d4eb4f;
    hash ^= hash >> 29;
    for (std::size_t i = hash;; ++i) {
      Cell& cell = cells[i & (cells.size() - 1)];
      if (cell.number == kNoIndex || (cell.from == from && cell.to == to && cell.channel == channel)) return cell;
    }
  }

  void grow() {
    std::vector<Cell> larger(4 * cells_.size());
    for (const Cell& cell : cells_) {
      if (cell.number != kNoIndex) find(larger, cell.from, cell.to, cell.channel) = cell;
    }
    cells_.swap(larger);
  }

  std::vector<FlatConnection>& connections_;
  std::vector<Cell> cells_;
};

// After how many outer iterations the index repeats; `outer` if not before.
std::uint64_t period_of(const Index& index, std::uint64_t outer) {
  if (index.by_outer == 0) return 1;
  if (index.modulo == 0) return outer;
  return index.modulo /
         std::gcd(static_cast<std::uint64_t>(std::abs(std::int64_t{index.by_outer})), std::uint64_t{index.modulo});
}

std::uint32_t period_of(const Lane& lane) {
  std::uint64_t period = 1;
  const auto include = [&](const Index& index) {
    if (period < lane.outer) period = std::lcm(period, period_of(index, lane.outer));
  };
  for (const Step& step : lane.steps) {
    if (receives(step.kind)) include(step.from);
    if (sends(step.kind)) include(step.to);
    include(step.span);
    for (const Guard& guard : step.guards) include(guard.value);
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(period, lane.outer));
}

std::vector<double> bytes_of_spans(const Layout& layout, std::uint64_t bytes) {
  std::vector<double> of_span;
  of_span.reserve(layout.span_count());
  for (std::uint32_t span = 0; span < layout.span_count(); ++span) {
    of_span.push_back(layout.share(span) * static_cast<double>(bytes));
  }
  return of_span;
}

// Shorter inner loops are not worth a form of their own.
constexpr std::uint32_t kWorthALoop = 4;

std::size_t hash_of_waits(const Step& step) {
  std::uint64_t hash = (std::uint64_t{step.outer_begin} << 32) + step.outer_end;
  const auto mix = [&](std::uint64_t x) { hash = (hash ^ x ^ hash >> 29) * 0x9e3779b97f4a7c15; };
  for (const Wait& wait : step.waits) {
    mix(std::uint64_t{wait.lane} << 32 | wait.step);
    mix(std::uint64_t{static_cast<std::uint32_t>(wait.outer_offset)} << 32 |
        static_cast<std::uint32_t>(wait.inner_offset));
    mix(wait.one_inner ? 1 : 0);
  }
  return hash;
}

// Of the steps that are awaited, lane by lane.
void number_ends(FlatLanes& flat) {
  flat.end_count = 0;
  for (std::size_t lane = 0; lane < flat.lanes.size(); ++lane) {
    const std::size_t last = lane + 1 < flat.lanes.size() ? flat.lanes[lane + 1].first_info : flat.infos.size();
    for (std::size_t i = flat.lanes[lane].first_info; i < last; ++i) {
      if (flat.infos[i].ends_per_outer == 0) continue;
      flat.infos[i].first_end = flat.end_count;
      flat.end_count += flat.lanes[lane].outer * flat.infos[i].ends_per_outer;
    }
  }
  for (FlatWait& wait : flat.waits) {
    wait.first_end = flat.infos[wait.info].first_end;
    wait.inner_count = flat.infos[wait.info].ends_per_outer;
  }
}

class Flattener final {
 public:
  Flattener(const Schedule& schedule, std::uint64_t bytes) : schedule_(schedule), numbers_(flat_.connections) {
    flat_.bytes_of_span = bytes_of_spans(schedule.header.layout, bytes);
    for (std::uint32_t rank = 0; rank < schedule.lanes.size(); ++rank)
      server_of_.push_back(rank / schedule.header.ranks_per_server);
  }

  FlatLanes run() {
    for (std::uint32_t rank = 0; rank < schedule_.lanes.size(); ++rank) {
      const std::uint32_t first_lane = static_cast<std::uint32_t>(flat_.lanes.size());
      for (const Lane& lane : schedule_.lanes[rank]) add_lane(rank, lane);
      add_waits(schedule_.lanes[rank], first_lane);
      for (std::uint32_t i = 0; i < schedule_.lanes[rank].size(); ++i)
        add_phases(schedule_.lanes[rank][i], flat_.lanes[first_lane + i]);
      if (rank == 0) flat_.steps.reserve(flat_.steps.size() * schedule_.lanes.size() / 64 * 65);  // most are alike
    }
    flat_.phase_begin.push_back(static_cast<std::uint32_t>(flat_.steps.size()));
    number_ends(flat_);
    renumber();
    return std::move(flat_);
  }

 private:
  static std::uint32_t inner_end(const Lane& lane) {
    return std::min(lane.inner_end, static_cast<std::uint32_t>(lane.steps.size()));
  }
  static bool in_inner(const Lane& lane, std::uint32_t step) {
    return step >= lane.inner_begin && step < inner_end(lane);
  }

  // Connections in the order in which their senders use them: the next one of a lane is then in memory that was just
  // asked for.
  void renumber() {
    std::vector<std::uint32_t> number(flat_.connections.size(), kNoIndex);
    std::vector<FlatConnection> sorted;
    sorted.reserve(number.size());
    const auto take = [&](std::uint32_t& connection) {
      if (connection == kNoIndex) return;
      if (number[connection] == kNoIndex) {
        number[connection] = static_cast<std::uint32_t>(sorted.size());
        sorted.push_back(flat_.connections[connection]);
      }
      connection = number[connection];
    };
    for (FlatStep& step : flat_.steps) take(step.out);
    for (FlatStep& step : flat_.steps) {
      take(step.in);
      step.receipt_awaited = step.in != kNoIndex && sorted[step.in].awaited;
    }
    flat_.connections.swap(sorted);
  }

  void add_lane(std::uint32_t rank, const Lane& lane) {
    FlatLane flat{.rank = rank, .rail = lane.rail, .outer = lane.steps.empty() ? 0 : lane.outer};
    flat.number = static_cast<std::uint32_t>(&lane - schedule_.lanes[rank].data());
    flat.first_info = static_cast<std::uint32_t>(flat_.infos.size());
    for (const Step& step : lane.steps) {
      flat_.infos.push_back({.outer_begin = step.outer_begin, .outer_end = step.outer_end, .inner = lane.inner});
      flat_.segments.push_back(step.segment);
    }
    flat_.lanes.push_back(flat);
  }

  // Steps of a lane that wait for the same in the same range of iterations share their waits.
  void add_waits(const std::vector<Lane>& lanes, std::uint32_t first_lane) {
    for (std::uint32_t i = 0; i < lanes.size(); ++i) {
      const std::vector<Step>& steps = lanes[i].steps;
      const std::uint32_t first_info = flat_.lanes[first_lane + i].first_info;
      alike_.clear();
      for (std::uint32_t s = 0; s < steps.size(); ++s) {
        if (steps[s].waits.empty()) continue;
        const auto [known, end] = alike_.equal_range(hash_of_waits(steps[s]));
        const auto same = std::find_if(known, end, [&](const auto& entry) {
          const Step& other = steps[entry.second];
          return other.outer_begin == steps[s].outer_begin && other.outer_end == steps[s].outer_end &&
                 other.waits == steps[s].waits;
        });
        FlatStepInfo& info = flat_.infos[first_info + s];
        if (same != end) {
          info.first_wait = flat_.infos[first_info + same->second].first_wait;
          info.wait_count = flat_.infos[first_info + same->second].wait_count;
          continue;
        }
        alike_.emplace(hash_of_waits(steps[s]), s);
        const auto first = static_cast<std::uint32_t>(flat_.waits.size());
        const std::uint32_t outer_end = std::min(steps[s].outer_end, lanes[i].outer);
        for (const Wait& wait : steps[s].waits) add_wait(lanes, first_lane, wait, {steps[s].outer_begin, outer_end});
        info.first_wait = first;
        info.wait_count = static_cast<std::uint32_t>(flat_.waits.size()) - first;
      }
    }
  }

  // False if an earlier step of this outer iteration waits for the same: then the lane is past it. One that waits for
  // single inner iterations waits each time.
  bool has_to_wait(const FlatStepInfo& info) {
    if (info.wait_count == 0) return false;
    for (std::uint32_t i = 0; i < info.wait_count; ++i) {
      if (flat_.waits[info.first_wait + i].one_inner) return true;
    }
    waited_in_.resize(flat_.waits.size(), kNoIndex);
    const auto phase = static_cast<std::uint32_t>(flat_.phase_begin.size());
    return std::exchange(waited_in_[info.first_wait], phase) != phase;
  }

  struct Rounds {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };

  // Of a step that runs in these outer iterations.
  void add_wait(const std::vector<Lane>& lanes, std::uint32_t first_lane, const Wait& wait, Rounds rounds) {
    R2CCL_ASSERT(wait.lane < lanes.size() && wait.step < lanes[wait.lane].steps.size(),
                 "a wait for a step that does not exist");
    const Lane& lane = lanes[wait.lane];
    const std::uint32_t number = flat_.lanes[first_lane + wait.lane].first_info + wait.step;
    FlatStepInfo& awaited = flat_.infos[number];
    const bool inside = in_inner(lane, wait.step);
    const std::uint32_t inner = inside ? lane.inner : 1;
    if (inner == 0 || lane.outer == 0) return;
    const bool one_inner = wait.one_inner && inside;
    awaited.ends_per_outer = one_inner ? inner : std::max(awaited.ends_per_outer, 1U);
    awaited.iterations_per_end = inner / awaited.ends_per_outer;
    const std::int64_t last_outer = std::int64_t{lane.outer} - 1;
    const std::int64_t first = std::clamp<std::int64_t>(std::int64_t{rounds.begin} + wait.outer_offset, 0, last_outer);
    const std::int64_t last = std::min(std::int64_t{rounds.end} - 1 + wait.outer_offset, last_outer);
    awaited.awaited_begin = std::min(awaited.awaited_begin, static_cast<std::uint32_t>(first));
    awaited.awaited_end =
        std::max(awaited.awaited_end, static_cast<std::uint32_t>(std::max<std::int64_t>(last + 1, 0)));
    flat_.waits.push_back({.info = number,
                           .outer_count = lane.outer,
                           .outer_offset = wait.outer_offset,
                           .inner_offset = wait.inner_offset,
                           .one_inner = one_inner});
  }

  void add_phases(const Lane& lane, FlatLane& flat) {
    flat.phases = flat.outer == 0 ? 0 : period_of(lane);
    const bool alike = one_step_at_a_time(lane, flat);
    flat.first_phase = static_cast<std::uint32_t>(flat_.phase_begin.size());
    const std::uint32_t count = static_cast<std::uint32_t>(lane.steps.size());
    for (std::uint32_t outer = 0; outer < flat.phases; ++outer) {
      flat_.phase_begin.push_back(static_cast<std::uint32_t>(flat_.steps.size()));
      for (std::uint32_t s = 0; s < std::min(lane.inner_begin, count); ++s) add_step(lane, flat, s, outer, 0);
      for (std::uint32_t s = lane.inner_begin; alike && s < inner_end(lane); ++s)
        add_step(lane, flat, s, outer, 0, true);
      for (std::uint32_t inner = 0; !alike && inner < lane.inner; ++inner) {
        for (std::uint32_t s = lane.inner_begin; s < inner_end(lane); ++s) add_step(lane, flat, s, outer, inner);
      }
      for (std::uint32_t s = std::max(lane.inner_begin, inner_end(lane)); s < count; ++s)
        add_step(lane, flat, s, outer, 0);
    }
  }

  // Every outer iteration runs at most one step of the inner loop, always the same message, and nobody waits for one
  // that it skips. Then the order of steps in the loop does not matter and each is enough once.
  bool one_step_at_a_time(const Lane& lane, const FlatLane& flat) const {
    if (lane.inner < kWorthALoop) return false;
    std::uint32_t before = 0;
    for (std::uint32_t s = lane.inner_begin; s < inner_end(lane); ++s) {
      const Step& step = lane.steps[s];
      const FlatStepInfo& info = flat_.infos[flat.first_info + s];
      const bool moves = (receives(step.kind) && step.from.by_inner != 0) ||
                         (sends(step.kind) && step.to.by_inner != 0) || step.span.by_inner != 0;
      if (moves || !step.guards.empty() || step.outer_begin < before || step.outer_end < step.outer_begin) return false;
      const bool awaited = info.ends_per_outer > 0 && info.awaited_begin < info.awaited_end;
      if (awaited && (info.awaited_begin < step.outer_begin || info.awaited_end > step.outer_end)) return false;
      before = step.outer_end;
    }
    return true;
  }

  void add_step(const Lane& lane, const FlatLane& flat, std::uint32_t number, std::uint32_t outer, std::uint32_t inner,
                bool whole_loop = false) {
    const Step& step = lane.steps[number];
    const FlatStepInfo& info = flat_.infos[flat.first_info + number];
    FlatStep out{
        .info = flat.first_info + number, .inner = inner, .whole_loop = whole_loop, .awaited = info.ends_per_outer > 0};
    const bool in_range = ever_in_range(step, flat, outer);
    if (whole_loop && !in_range) return;
    const bool runs = in_range && std::all_of(step.guards.begin(), step.guards.end(),
                                              [&](const Guard& g) { return g.value.at(outer, inner) == g.equals; });
    if (runs && span_of(step, outer, inner, out.span)) {
      if (receives(step.kind)) {
        const std::uint32_t from = peer(step.from, outer, inner);
        out.in = numbers_.of(from, flat.rank, step.channel_in);
        out.from_inside = server_of_[from] == server_of_[flat.rank];
      }
      if (sends(step.kind)) {
        out.to = peer(step.to, outer, inner);
        out.to_inside = server_of_[out.to] == server_of_[flat.rank];
        out.out = numbers_.of(flat.rank, out.to, step.channel_out);
        flat_.connections[out.out].awaited |= out.awaited;
      }
    }
    out.waits = runs && has_to_wait(info);
    if (out.in != kNoIndex || out.out != kNoIndex || out.waits || out.awaited) flat_.steps.push_back(out);
  }

  // Some outer iteration of this phase lies in the range in which the step runs.
  static bool ever_in_range(const Step& step, const FlatLane& lane, std::uint32_t phase) {
    std::uint64_t first = phase;
    if (step.outer_begin > phase)
      first += (std::uint64_t{step.outer_begin} - phase + lane.phases - 1) / lane.phases * lane.phases;
    return first < std::min(step.outer_end, lane.outer);
  }

  // False for an empty range: nothing is sent, at either end.
  bool span_of(const Step& step, std::uint32_t outer, std::uint32_t inner, std::uint32_t& span) const {
    const std::int64_t number = step.span.at(outer, inner);
    R2CCL_ASSERT(number >= 0 && number < static_cast<std::int64_t>(flat_.bytes_of_span.size()),
                 "a span outside the layout");
    span = static_cast<std::uint32_t>(number);
    return flat_.bytes_of_span[span] > 0;
  }

  std::uint32_t peer(const Index& index, std::uint32_t outer, std::uint32_t inner) const {
    const std::int64_t rank = index.at(outer, inner);
    R2CCL_ASSERT(rank >= 0 && rank < static_cast<std::int64_t>(schedule_.lanes.size()), "a peer that does not exist");
    return static_cast<std::uint32_t>(rank);
  }

  const Schedule& schedule_;
  FlatLanes flat_;
  ConnectionNumbers numbers_;
  std::vector<std::uint32_t> server_of_;                       // [rank]
  std::unordered_multimap<std::size_t, std::uint32_t> alike_;  // scratch of add_waits()
  std::vector<std::uint32_t> waited_in_;                       // [wait] the last phase in which a step waited for it
};

}  // namespace

bool resize(FlatLanes& flat, const Layout& layout, std::uint64_t bytes) {
  std::vector<double> of_span = bytes_of_spans(layout, bytes);
  const auto both_empty_or_not = [](double a, double b) { return (a > 0) == (b > 0); };
  if (!std::ranges::equal(of_span, flat.bytes_of_span, both_empty_or_not)) return false;
  flat.bytes_of_span = std::move(of_span);
  return true;
}

void stretch(FlatLanes& flat, std::uint32_t at, std::int64_t more) {
  const auto move = [&](std::uint32_t& bound) {
    if (bound != UINT32_MAX && bound > at) bound = static_cast<std::uint32_t>(bound + more);
  };
  for (FlatLane& lane : flat.lanes) move(lane.outer);
  for (FlatStepInfo& info : flat.infos) {
    move(info.outer_begin);
    move(info.outer_end);
  }
  for (FlatWait& wait : flat.waits) move(wait.outer_count);
  number_ends(flat);
}

LaneTraffic traffic_of(const FlatLanes& flat, const Cluster& cluster) {
  LaneTraffic traffic;
  for (auto* bytes : {&traffic.out, &traffic.in, &traffic.free_out, &traffic.free_in})
    bytes->assign(cluster.ranks(), 0);
  double smallest = std::numeric_limits<double>::infinity();
  for (const FlatLane& lane : flat.lanes) {
    const std::uint32_t server = lane.rank / cluster.gpus;
    for (std::uint32_t phase = 0; phase < lane.phases; ++phase) {
      const auto before = [&](std::uint64_t outer) {
        return outer > phase ? (outer - phase - 1) / lane.phases + 1 : 0;
      };
      for (std::uint32_t i = flat.phase_begin[lane.first_phase + phase];
           i < flat.phase_begin[lane.first_phase + phase + 1]; ++i) {
        const FlatStep& step = flat.steps[i];
        if (step.out == kNoIndex) continue;
        const FlatStepInfo& info = flat.infos[step.info];
        const std::uint32_t times = step.whole_loop ? info.inner : 1;
        const std::uint64_t runs =
            before(std::min(info.outer_end, lane.outer)) - before(std::min(info.outer_begin, lane.outer));
        const std::uint32_t to = flat.connections[step.out].to;
        if (to / cluster.gpus == server) {
          traffic.intra_messages += runs * times;
          continue;
        }
        const double bytes = flat.bytes_of_span[step.span];
        smallest = std::min(smallest, bytes);
        traffic.messages += runs * times;
        for (std::uint32_t time = 0; time < times; ++time) {  // one by one: sums come out the same to the last bit
          traffic.out[lane.rank] += bytes * static_cast<double>(runs);
          traffic.in[to] += bytes * static_cast<double>(runs);
          if (lane.rail != kAnyRail) continue;
          traffic.free_out[lane.rank] += bytes * static_cast<double>(runs);
          traffic.free_in[to] += bytes * static_cast<double>(runs);
        }
      }
    }
  }
  if (traffic.messages > 0) traffic.smallest_message = smallest;
  return traffic;
}

FlatLanes flatten(const Schedule& schedule, std::uint64_t bytes) {
  return Flattener(schedule, bytes).run();
}

}  // namespace r2ccl::sim
