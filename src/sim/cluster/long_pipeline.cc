#include "sim/cluster/long_pipeline.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace r2ccl::sim {
namespace {

constexpr std::size_t kManyLanes = 1000;
// A run whose lanes between servers are hardly slower than the fabric inside a server is not trusted: behind them the
// stages inside fall back without holding them up.
constexpr double kFabricDecides = 1.02;

// What it takes to trust a short run. The more lanes a mean is over, the fewer rounds it needs. Lanes that change
// places look like a difference that falls with the number of rounds; a real one stays.
struct Trust {
  std::uint32_t even = 0;      // at least so many even rounds are looked at
  std::uint32_t part = 0;      // at least this part of all rounds is run
  std::uint32_t draining = 0;  // the last rounds, which are not even: lanes that were left behind end later
  // In parts of the whole time, for one even round.
  double uneven = 0;  // how wrong it may be if stretches differ by chance
  double drift = 0;   // how much longer the slowest server may need
};
constexpr Trust kFew{.even = 6, .part = 4, .draining = 0, .uneven = 3.5e-3, .drift = 25e-3};
constexpr Trust kMany{.even = 4, .part = 5, .draining = 1, .uneven = 6e-3, .drift = 18e-3};

Trust trust(std::size_t lanes) {
  return lanes < kManyLanes ? kFew : kMany;
}

std::uint32_t round_down(std::uint32_t x, std::uint32_t to) {
  return x / to * to;
}

// Sets of lanes.
class Sets final {
 public:
  explicit Sets(std::size_t count) : up_(count) { std::iota(up_.begin(), up_.end(), 0U); }
  std::uint32_t of(std::uint32_t x) {
    while (up_[x] != x) x = up_[x] = up_[up_[x]];
    return x;
  }
  void join(std::uint32_t a, std::uint32_t b) { up_[of(a)] = of(b); }

 private:
  std::vector<std::uint32_t> up_;
};

}  // namespace

std::optional<LongPipeline> pipeline_of(const FlatLanes& flat, const PlanHeader& header) {
  const std::uint32_t rounds = header.layout.segments;
  LongPipeline pipeline{.rounds = rounds};
  std::uint64_t period = 1;
  std::uint32_t apart = 0;  // the furthest that two iterations which touch are apart
  std::uint32_t end = 0;    // ranges that are bounded near the end
  for (const FlatLane& lane : flat.lanes) {
    if (lane.outer == 0) continue;
    if (lane.outer < rounds || lane.outer > rounds + rounds / 4) return std::nullopt;
    apart = std::max(apart, lane.outer - rounds);
    period = std::lcm(period, std::uint64_t{lane.phases});
    if (period > rounds / 2) return std::nullopt;
  }
  for (const FlatStepInfo& info : flat.infos) {
    for (const std::uint32_t bound : {info.outer_begin, info.outer_end}) {
      if (bound <= rounds / 2) {
        pipeline.start = std::max(pipeline.start, bound);
      } else if (bound < rounds) {
        end = std::max(end, rounds - bound);
      }
    }
  }
  for (const FlatWait& wait : flat.waits) {
    apart = std::max(apart, static_cast<std::uint32_t>(std::abs(wait.outer_offset)));
  }
  pipeline.period = static_cast<std::uint32_t>(period);
  pipeline.filled = std::max(apart, pipeline.start) + header.slots + 1;
  const Trust need = trust(flat.lanes.size());
  const std::uint32_t even = std::max(need.even, pipeline.period + std::min(pipeline.period, need.even));
  const std::uint64_t least =
      std::max<std::uint64_t>(pipeline.filled + even + std::max(end, need.draining) + 1, rounds / need.part);
  pipeline.shorter = static_cast<std::uint32_t>(std::min<std::uint64_t>(least, rounds));
  pipeline.shorter += (rounds - pipeline.shorter) % pipeline.period;
  return pipeline.shorter <= rounds / 4 * 3 ? std::optional(pipeline) : std::nullopt;
}

RoundProgress::RoundProgress(const FlatLanes& flat, const Cluster& cluster, const LongPipeline& pipeline)
    : pipeline_(pipeline), rounds_(pipeline.shorter) {
  find_groups(flat, cluster);
  std::uint32_t groups = 0;
  for (const std::uint32_t group : group_) groups = std::max(groups, group + 1);
  end_s_.assign(groups, 0);
  // Where a group has no lanes that send between servers, all its lanes count.
  std::vector<bool> sending(groups, false);
  for (std::size_t lane = 0; lane < group_.size(); ++lane)
    sending[group_[lane]] = sending[group_[lane]] || counts_[lane];
  std::vector<std::uint32_t> number(std::size_t{groups} * cluster.servers, kNoIndex);
  for (std::size_t lane = 0; lane < group_.size(); ++lane) {
    const std::uint32_t group = group_[lane];
    std::uint32_t& party = number[std::size_t{group} * cluster.servers + flat.lanes[lane].rank / cluster.gpus];
    if (party == kNoIndex) {
      party = static_cast<std::uint32_t>(parties_.size());
      parties_.push_back({.group = group});
    }
    if (!sending[group]) counts_[lane] = flat.lanes[lane].outer > 0;
    if (counts_[lane]) ++parties_[party].lanes;
    party_.push_back(party);
  }
  sum_s_.assign(parties_.size() * rounds_, 0);
}

void RoundProgress::find_groups(const FlatLanes& flat, const Cluster& cluster) {
  const auto count = static_cast<std::uint32_t>(flat.lanes.size());
  Sets sets(count);
  std::vector<std::uint32_t> lane_of_info(flat.infos.size());
  std::vector<std::uint32_t> lane_of_connection(flat.connections.size(), kNoIndex);
  counts_.assign(count, false);
  const auto join = [&](std::uint32_t lane, std::uint32_t number) {
    if (number == kNoIndex) return;
    const FlatConnection& c = flat.connections[number];
    if (c.from / cluster.gpus != c.to / cluster.gpus) counts_[lane] = true;
    std::uint32_t& other = lane_of_connection[number];
    if (other == kNoIndex) other = lane;
    if (other != lane) sets.join(other, lane);
  };
  for (std::uint32_t lane = 0; lane < count; ++lane) {
    const FlatLane& flat_lane = flat.lanes[lane];
    const std::size_t infos_end = lane + 1 < count ? flat.lanes[lane + 1].first_info : flat.infos.size();
    for (std::size_t i = flat_lane.first_info; i < infos_end; ++i) lane_of_info[i] = lane;
    if (flat_lane.outer == 0) continue;
    for (std::uint32_t i = flat.phase_begin[flat_lane.first_phase];
         i < flat.phase_begin[flat_lane.first_phase + flat_lane.phases]; ++i) {
      join(lane, flat.steps[i].in);
      join(lane, flat.steps[i].out);
    }
  }
  for (std::uint32_t i = 0; i < flat.infos.size(); ++i) {
    for (std::uint32_t w = 0; w < flat.infos[i].wait_count; ++w)
      sets.join(lane_of_info[i], lane_of_info[flat.waits[flat.infos[i].first_wait + w].info]);
  }
  std::vector<std::uint32_t> number(count, kNoIndex);
  std::uint32_t groups = 0;
  for (std::uint32_t lane = 0; lane < count; ++lane) {
    std::uint32_t& group = number[sets.of(lane)];
    if (group == kNoIndex) group = groups++;
    group_.push_back(group);
  }
}

std::optional<double> RoundProgress::whole_s(const Busiest& busiest) const {
  // The last `stretch` even rounds are compared with those `back` before them, the same in the period.
  const Trust need = trust(group_.size());
  const std::uint32_t last = rounds_ - 1 - need.draining;
  const std::uint32_t even = last - pipeline_.filled;
  const std::uint32_t back = std::max(round_down(even / 2, pipeline_.period), pipeline_.period);
  const std::uint32_t stretch = std::min(back, even - back);
  const std::uint32_t count = round_down(back + stretch, pipeline_.period);
  const double left_out = pipeline_.rounds - rounds_;
  struct Rates {
    double lanes = 0;
    double all_s = 0;
    double change_s = 0;
    double slowest_s = 0;
  };
  std::vector<Rates> rates(end_s_.size());
  for (std::uint32_t party = 0; party < parties_.size(); ++party) {
    if (parties_[party].lanes == 0) continue;
    Rates& r = rates[parties_[party].group];
    r.lanes += parties_[party].lanes;
    r.all_s += rate_s(party, last - count, last);
    r.change_s += rate_s(party, last - stretch, last) - rate_s(party, last - back - stretch, last - back);
    // Also of the draining rounds: there a server that has fallen behind shows it.
    r.slowest_s = std::max(r.slowest_s, rate_s(party, last - count, rounds_ - 1) / parties_[party].lanes);
  }
  double whole_s = 0;
  double uneven_s = 0;
  double drift_s = 0;
  // Which of several groups the server works for is not known, and few lanes use its NICs too unevenly in a short run.
  const double least_s = rates.size() == 1 && group_.size() >= kManyLanes ? busiest.nics_s / rounds_ : 0;
  for (std::size_t group = 0; group < rates.size(); ++group) {
    const Rates& r = rates[group];
    if (r.lanes == 0) continue;
    const double pace_s = std::max(r.all_s / r.lanes, least_s);
    if (pace_s * rounds_ < kFabricDecides * busiest.fabric_s) return std::nullopt;
    whole_s = std::max(whole_s, end_s_[group] + left_out * pace_s);
    uneven_s = std::max(uneven_s, left_out * std::abs(r.change_s) / r.lanes * stretch / count);
    drift_s = std::max(drift_s, left_out * (r.slowest_s - pace_s));
  }
  if (!(uneven_s * count <= need.uneven * whole_s && drift_s * count <= need.drift * whole_s)) return std::nullopt;
  return whole_s;
}

}  // namespace r2ccl::sim
