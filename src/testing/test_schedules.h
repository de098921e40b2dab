#pragma once
// Small schedules for the tests of the cluster model, written out by hand so that the model is not tested against the
// planner.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "schedule/schedule.h"
#include "topology/cluster.h"

namespace r2ccl::sim {

inline PlanHeader test_header(std::uint32_t ranks, std::uint32_t ranks_per_server, Layout layout,
                              std::uint32_t slots = 2) {
  PlanHeader header;
  header.ranks = ranks;
  header.ranks_per_server = ranks_per_server;
  header.layout = std::move(layout);
  header.slots = slots;
  return header;
}

inline Step send_step(Index to, Index span = fixed(0), std::uint32_t channel = 0) {
  Step step;
  step.kind = StepKind::kSend;
  step.to = to;
  step.channel_out = channel;
  step.span = span;
  step.source.buffer = Buffer::kInput;
  return step;
}

inline Step receive_step(Index from, Index span = fixed(0), std::uint32_t channel = 0) {
  Step step;
  step.kind = StepKind::kRecv;
  step.from = from;
  step.channel_in = channel;
  step.span = span;
  step.destination.buffer = Buffer::kOutput;
  return step;
}

inline Lane lane_of(std::vector<Step> steps, std::int32_t rail = kAnyRail) {
  Lane lane;
  lane.rail = rail;
  lane.steps = std::move(steps);
  return lane;
}

// AllReduce over a ring of all ranks; `rings` of them side by side on an equal part of the data each, pinned to rails
// if asked.
inline Schedule ring_schedule(std::uint32_t ranks, std::uint32_t ranks_per_server, std::uint32_t rings = 1,
                              bool pinned = false) {
  Schedule schedule;
  schedule.header = test_header(ranks, ranks_per_server, Layout::equal(ranks * rings));
  for (std::uint32_t me = 0; me < ranks; ++me) {
    schedule.lanes.emplace_back();
    for (std::uint32_t ring = 0; ring < rings; ++ring) {
      Lane lane = lane_of({}, pinned ? static_cast<std::int32_t>(ring) : kAnyRail);
      for (std::uint32_t i = 0; i < 2 * ranks - 1; ++i) {
        const Index span = fixed(ring * ranks + (me + 2 * ranks - i) % ranks);
        Step step = receive_step(fixed((me + ranks - 1) % ranks), span, ring);
        step.to = fixed((me + 1) % ranks);
        step.channel_out = ring;
        step.kind = i == 0               ? StepKind::kSend
                    : i == 2 * ranks - 2 ? StepKind::kRecv
                    : i < ranks - 1      ? StepKind::kRecvReduceSend
                    : i == ranks - 1     ? StepKind::kRecvReduceCopySend
                                         : StepKind::kRecvCopySend;
        step.source.buffer = Buffer::kInput;
        lane.steps.push_back(step);
      }
      schedule.lanes.back().push_back(lane);
    }
  }
  return schedule;
}

inline std::vector<double> server_rates(const Cluster& cluster) {
  std::vector<double> rates;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) rates.push_back(cluster.server_rate(server));
  return rates;
}

// The shares that owners must have so that everybody's load fits its bandwidth: min(c, B T* - 1) / (q - 2), with the c
// that makes them add up to 1.
inline std::vector<double> owner_shares(const std::vector<double>& rates, double bound) {
  const std::size_t q = rates.size();
  if (q == 2) return {0.5, 0.5};
  std::vector<double> d;
  for (const double rate : rates) d.push_back(std::max(0.0, rate * bound - 1));
  double low = 0;
  double high = *std::max_element(d.begin(), d.end());
  const auto capped = [&](double cap) {
    return std::accumulate(d.begin(), d.end(), 0.0, [=](double sum, double x) { return sum + std::min(cap, x); });
  };
  for (int i = 0; i < 100; ++i) (capped((low + high) / 2) < static_cast<double>(q - 2) ? low : high) = (low + high) / 2;
  for (double& x : d) x = std::min(high, x) / static_cast<double>(q - 2);
  return d;
}

struct DirectOptions {
  std::uint32_t segments = 64;
  std::uint32_t lag = 2;
  std::uint32_t slots = 4;
  std::uint32_t gpus = 1;  // each does the same with its part of the data, with its like in other servers
};

// Everybody sends piece i straight to its owner i, which sends the sum back, `lag` segments later.
inline Schedule direct_schedule(const std::vector<double>& shares, const DirectOptions& options = {}) {
  const auto q = static_cast<std::uint32_t>(shares.size());
  const auto lag = static_cast<std::int32_t>(options.lag);
  Schedule schedule;
  const std::uint32_t gpus = options.gpus;
  schedule.header = test_header(q * gpus, gpus, {}, options.slots);
  std::vector<double> pieces;
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) pieces.insert(pieces.end(), shares.begin(), shares.end());
  schedule.header.layout.bounds = piece_bounds(pieces);
  schedule.header.layout.segments = options.segments;
  for (std::uint32_t me = 0; me < q * gpus; ++me) {
    const auto server = static_cast<std::int32_t>(me / gpus);
    const auto gpu = static_cast<std::int32_t>(me % gpus);
    const auto step = static_cast<std::int32_t>(gpus);
    const auto first = gpu * static_cast<std::int32_t>(q);  // piece
    const Index next{.base = server + 1, .by_inner = 1, .modulo = q, .scale = step, .offset = gpu};
    const Index previous{.base = server - 1, .by_inner = -1, .modulo = q, .scale = step, .offset = gpu};
    const Index next_piece{.base = server + 1, .by_inner = 1, .modulo = q, .offset = first};
    const Index previous_piece{.base = server - 1, .by_inner = -1, .modulo = q, .offset = first};
    const Index own_piece = fixed(first + server);
    Lane out = lane_of({send_step(next, next_piece), send_step(next, own_piece)});
    Lane in = lane_of({receive_step(previous, own_piece), receive_step(previous, previous_piece)});
    in.steps[0].kind = StepKind::kRecvReduce;
    in.steps[0].source.buffer = Buffer::kOutput;
    in.steps[0].has_first = true;
    in.steps[0].first_source = Buffer::kInput;
    out.steps[1].source.buffer = Buffer::kOutput;
    out.steps[1].waits = {{.lane = 1, .step = 0, .outer_offset = -lag}};
    for (Lane* lane : {&out, &in}) {
      lane->outer = options.segments + options.lag;
      lane->inner = q - 1;
      lane->steps[0].segment = outer_plus(0);
      lane->steps[0].outer_end = options.segments;
      lane->steps[1].segment = outer_plus(-lag);
      lane->steps[1].outer_begin = options.lag;
    }
    schedule.lanes.push_back({out, in});
  }
  return schedule;
}

}  // namespace r2ccl::sim
