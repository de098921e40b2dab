#include "sim/cluster/pipeline.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace r2ccl::sim {
namespace {

// At least so many even rounds are looked at, and at least this part of all rounds is run.
constexpr std::uint32_t kLeastEven = 6;
constexpr std::uint32_t kLeastPart = 4;
// By how much the halves of the even rounds may differ, and a server be slower than all, in parts of the whole time and for one even
// round. Lanes that change places look like a difference that falls with the number of rounds; a real one stays.
constexpr double kUneven = 8e-3;
constexpr double kDrift = 30e-3;

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

std::optional<Pipeline> pipeline_of(const FlatLanes& flat, const Frame& frame) {
  const std::uint32_t rounds = frame.layout.segments;
  Pipeline pipeline{.rounds = rounds};
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
  pipeline.filled = std::max(apart, pipeline.start) + frame.slots + 1;
  const std::uint32_t even = (kLeastEven + pipeline.period - 1) / pipeline.period * pipeline.period;
  const std::uint64_t least = std::max<std::uint64_t>(pipeline.filled + even + end + 1, rounds / kLeastPart);
  pipeline.shorter = static_cast<std::uint32_t>(std::min<std::uint64_t>(least, rounds));
  return pipeline.shorten_by_periods() ? std::optional(pipeline) : std::nullopt;
}

bool Pipeline::shorten_by_periods() {
  shorter += (rounds - shorter) % period;
  return shorter <= rounds / 4 * 3;
}

bool Pipeline::lengthen() {
  shorter = std::min(2 * shorter, rounds);
  return shorten_by_periods();
}

Progress::Progress(const FlatLanes& flat, const Cluster& cluster, const Pipeline& pipeline)
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

void Progress::find_groups(const FlatLanes& flat, const Cluster& cluster) {
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

std::optional<double> Progress::whole_s() const {
  const std::uint32_t last = rounds_ - 1;
  const std::uint32_t even = (last - pipeline_.filled) / pipeline_.period * pipeline_.period;
  const std::uint32_t first = last - even;
  const std::uint32_t middle = first + even / 2;
  const double left_out = pipeline_.rounds - rounds_;
  struct Rates {
    double lanes = 0;
    double all_s = 0;
    double first_half_s = 0;
    double second_half_s = 0;
    double slowest_s = 0;
  };
  std::vector<Rates> rates(end_s_.size());
  for (std::uint32_t party = 0; party < parties_.size(); ++party) {
    if (parties_[party].lanes == 0) continue;
    Rates& r = rates[parties_[party].group];
    r.lanes += parties_[party].lanes;
    r.all_s += rate_s(party, first, last);
    r.first_half_s += rate_s(party, first, middle);
    r.second_half_s += rate_s(party, middle, last);
    r.slowest_s = std::max(r.slowest_s, rate_s(party, first, last) / parties_[party].lanes);
  }
  double whole_s = 0;
  double uneven_s = 0;
  double drift_s = 0;
  for (std::size_t group = 0; group < rates.size(); ++group) {
    const Rates& r = rates[group];
    if (r.lanes == 0) continue;
    whole_s = std::max(whole_s, end_s_[group] + left_out * r.all_s / r.lanes);
    uneven_s = std::max(uneven_s, left_out * std::abs(r.first_half_s - r.second_half_s) / r.lanes);
    drift_s = std::max(drift_s, left_out * (r.slowest_s - r.all_s / r.lanes));
  }
  if (!(uneven_s * even <= kUneven * whole_s && drift_s * even <= kDrift * whole_s)) return std::nullopt;
  return whole_s;
}

}  // namespace r2ccl::sim
