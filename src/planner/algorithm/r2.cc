// R²CCL-AllReduce for one degraded server. Stage 1: a ring of all servers on (1 - Y) of the data, at the degraded
// server's rate, beside a ring of the healthy ones on the tail Y, at the rate that is left. Stage 2: the degraded
// server pushes its own tail through the chain of the healthy ones, each adds it to its sum and forwards it as it came,
// while the last of them sends the sum of the healthy ones to the degraded server. So that server moves only Y there,
// each way at once. Stage 2 begins at each server when its stage 1 is over.
//
// With K chunks instead (what the authors' code does): the tail is reduced onto the first healthy server chunk by
// chunk, and each finished chunk is broadcast from there along the chain, which ends at the degraded server.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/levels.h"
#include "planner/algorithm/parts/steps.h"
#include "planner/algorithm/rings/ring.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kMostChunks = 512;
constexpr std::uint32_t kChunkedSegments = 64;  // at least so many, so that the chain of the broadcast fills fast

struct R2 {
  Levels levels;                     // the ring of all, the ring of the healthy
  std::vector<std::uint32_t> chain;  // the degraded server, then the healthy ones in ring order
  std::uint32_t chunks = 0;          // K, or 0 for the single pass
  std::uint32_t depth = 1;           // segments of the tail that a server keeps until they are received further down

  const Level& tail() const { return levels.levels[1]; }
};

Operand scratch(Index slot) {
  return {Buffer::kScratch, slot};
}

// Both parts of a gated() step at the same inner iteration, `back` outer iterations ago.
std::vector<Wait> same_message(std::uint32_t lane, std::uint32_t outer, std::int32_t back) {
  std::vector<Wait> waits{{.lane = lane, .step = 0, .outer_offset = -back, .one_inner = true}};
  if (outer > 1) waits.push_back({.lane = lane, .step = 1, .outer_offset = -back, .one_inner = true});
  return waits;
}

// Messages of the single pass: outer = segment, inner = column.
Where tail_message(const R2& r2) {
  return {{.base = static_cast<std::int32_t>(r2.tail().first_span), .by_inner = 1}, outer_plus(0)};
}

Lane pass_lane(const R2& r2, std::string name, std::vector<Step> steps) {
  return {.name = std::move(name), .outer = r2.levels.segments, .inner = r2.tail().size(), .steps = std::move(steps)};
}

void degraded_pass(const R2& r2, FirstStage& stage) {
  const std::uint32_t raw_channel = r2.levels.channels;
  const auto raw_lane = static_cast<std::uint32_t>(stage.lanes.size());
  const Where where = tail_message(r2);
  const Step raw = send(fixed(r2.chain[1]), where, Buffer::kInput, raw_channel);
  stage.lanes.push_back(pass_lane(r2, "raw_out", gated(raw, stage.over, r2.levels.segments)));
  // In place, the sum lies where the raw tail is sent from, and is not made from it.
  Step sum = recv_reduce(fixed(r2.chain.back()), where, Buffer::kInput, Buffer::kOutput, raw_channel + 1);
  sum.waits = same_message(raw_lane, r2.levels.segments, 0);
  stage.lanes.push_back(pass_lane(r2, "sum_in", {std::move(sum)}));
}

void relay_pass(const R2& r2, std::uint32_t place, FirstStage& stage) {
  const std::uint32_t channel = r2.levels.channels;
  const std::uint32_t columns = r2.tail().size();
  const auto lane = static_cast<std::uint32_t>(stage.lanes.size());
  const Where where = tail_message(r2);
  const Operand slot =
      scratch({.by_outer = static_cast<std::int32_t>(columns), .by_inner = 1, .modulo = r2.depth * columns});
  Step relay =
      and_send(recv(fixed(r2.chain[place - 1]), where, Buffer::kScratch, channel), fixed(r2.chain[place + 1]), channel);
  relay.destination = slot;
  relay.waits = same_message(lane, r2.levels.segments, static_cast<std::int32_t>(r2.depth));
  std::vector<Step> steps = gated(std::move(relay), stage.over, r2.levels.segments);
  Step add = copy(where, Buffer::kScratch, Buffer::kOutput);
  add.kind = StepKind::kReduce;
  add.source = slot;
  steps.push_back(std::move(add));
  stage.lanes.push_back(pass_lane(r2, "raw_pass", std::move(steps)));
}

void last_pass(const R2& r2, FirstStage& stage) {
  const std::uint32_t raw_channel = r2.levels.channels;
  const auto sum_lane = static_cast<std::uint32_t>(stage.lanes.size());
  const Where where = tail_message(r2);
  const Step sum = send(fixed(r2.chain[0]), where, Buffer::kOutput, raw_channel + 1);
  stage.lanes.push_back(pass_lane(r2, "sum_out", gated(sum, stage.over, r2.levels.segments)));
  Step add = recv_reduce(fixed(r2.chain[r2.chain.size() - 2]), where, Buffer::kOutput, Buffer::kOutput, raw_channel);
  add.waits = same_message(sum_lane, r2.levels.segments, 0);
  stage.lanes.push_back(pass_lane(r2, "raw_in", {std::move(add)}));
}

void single_pass(const R2& r2, std::uint32_t place, FirstStage& stage) {
  if (place == 0) return degraded_pass(r2, stage);
  if (place + 1 == r2.chain.size()) return last_pass(r2, stage);
  relay_pass(r2, place, stage);
}

// A lane of the chunked stage: outer = chunk, inner = segment within the chunk, one step per column. Only the first is
// gated.
template <class MakeStep>
Lane chunk_lane(const R2& r2, std::string name, const std::vector<Wait>& waits, MakeStep make) {
  const std::uint32_t inside = r2.levels.segments / r2.chunks;
  Lane lane{.name = std::move(name), .outer = r2.chunks, .inner = inside, .steps = {}};
  for (std::uint32_t column = 0; column < r2.tail().size(); ++column) {
    const Where where{fixed(r2.tail().first_span + column),
                      {.by_outer = static_cast<std::int32_t>(inside), .by_inner = 1}};
    std::vector<Step> steps{make(where)};
    if (column == 0) steps = gated(std::move(steps[0]), waits, r2.chunks);
    std::ranges::move(steps, std::back_inserter(lane.steps));
  }
  return lane;
}

void chunked(const R2& r2, std::uint32_t place, FirstStage& stage) {
  const std::uint32_t up = r2.levels.channels;
  const std::uint32_t down = up + 1;
  const auto last = static_cast<std::uint32_t>(r2.chain.size()) - 1;
  const Index next = fixed(r2.chain[place == last ? 0 : place + 1]);
  const Index previous = fixed(r2.chain[place == 0 ? last : place - 1]);
  if (place == 0) {
    stage.lanes.push_back(
        chunk_lane(r2, "raw_out", stage.over, [&](const Where& w) { return send(next, w, Buffer::kInput, up); }));
    stage.lanes.push_back(
        chunk_lane(r2, "result_in", {}, [&](const Where& w) { return recv(previous, w, Buffer::kOutput, down); }));
    return;
  }
  if (place > 1) {
    stage.lanes.push_back(chunk_lane(r2, "result_pass", stage.over, [&](const Where& w) {
      return and_send(recv(previous, w, Buffer::kOutput, down), next, down);
    }));
    return;
  }
  const auto sum_lane = static_cast<std::uint32_t>(stage.lanes.size());
  stage.lanes.push_back(chunk_lane(r2, "raw_in", stage.over, [&](const Where& w) {
    return recv_reduce(previous, w, Buffer::kOutput, Buffer::kOutput, up);
  }));
  // The broadcast of a chunk starts when the whole chunk is there.
  const Wait whole{.lane = sum_lane, .step = static_cast<std::uint32_t>(stage.lanes.back().steps.size()) - 1};
  stage.lanes.push_back(chunk_lane(r2, "result_out", {},
                                   [&](const Where& w) { return after(whole, send(next, w, Buffer::kOutput, down)); }));
}

std::vector<Lane> lanes_of(const R2& r2, std::uint32_t server) {
  FirstStage stage = first_stage(r2.levels, server);
  const auto place = static_cast<std::uint32_t>(std::ranges::find(r2.chain, server) - r2.chain.begin());
  r2.chunks == 0 ? single_pass(r2, place, stage) : chunked(r2, place, stage);
  return std::move(stage.lanes);
}

Result<std::uint32_t> degraded_server(const Cluster& cluster) {
  std::vector<std::uint32_t> degraded;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    if (cluster.server_rate(server) < cluster.healthy_server_rate() * (1 - 1e-9)) degraded.push_back(server);
  }
  if (degraded.size() > 1) {
    return fail(Fault::kMisuse,
                fmt::format("r2 needs exactly one degraded server; {} are, which is for recursive", degraded.size()));
  }
  if (degraded.empty()) return fail(Fault::kMisuse, "r2 needs exactly one degraded server; none is");
  if (cluster.servers < 3) {
    return fail(Fault::kMisuse,
                fmt::format("r2 needs at least 3 servers, two of them healthy; there are {}", cluster.servers));
  }
  return degraded[0];
}

// The time of stage 2, with α, port cost and the filling of the chain.
double stage_two_seconds(const R2& r2, double tail_bytes, std::uint32_t segments, const Cluster& cluster) {
  const double slow = cluster.server_rate(r2.chain[0]);
  const double columns = r2.tail().size();
  const double message_s = tail_bytes / segments / columns / cluster.healthy_server_rate() + cluster.port_cost_s;
  const double passes = r2.chunks == 0 ? 1 : 1 + 1.0 / r2.chunks;
  return passes * tail_bytes / slow + (columns - 1) * message_s + (columns + 1) * cluster.alpha_s +
         segments * columns * cluster.port_cost_s / cluster.nics;
}

std::uint32_t segments_for(const R2& r2, double bytes, const Cluster& cluster, const Tuning& tuning) {
  const double message = ring_message(r2.levels, bytes);
  if (r2.chunks != 0) {
    const auto fits = static_cast<std::uint32_t>(
        std::clamp(message / static_cast<double>(cluster.min_message), 1.0, double{kChunkedSegments}));
    return r2.chunks *
           std::max(1U, (std::min(tuning.segments.value_or(kChunkedSegments), fits) + r2.chunks - 1) / r2.chunks);
  }
  return choose_ring_segments(message, cluster, tuning, [&](std::uint32_t segments) {
    return rings_seconds(r2.levels, bytes, segments, cluster) +
           stage_two_seconds(r2, r2.tail().share * bytes, segments, cluster);
  });
}

}  // namespace

Result<Plan> plan_r2(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  if (Status ok = needs_one_gpu(cluster, "r2"); !ok) return std::unexpected(ok.error());
  const Result<std::uint32_t> degraded = degraded_server(cluster);
  if (!degraded) return std::unexpected(degraded.error());
  if (tuning.r2_chunks > kMostChunks) {
    return fail(Fault::kMisuse, fmt::format("r2 merges in at most {} chunks, not {}", kMostChunks, tuning.r2_chunks));
  }
  R2 r2{.levels = {}, .chain = {}, .chunks = tuning.r2_chunks};
  for (std::uint32_t i = 0; i < cluster.servers; ++i) r2.chain.push_back((*degraded + i) % cluster.servers);
  r2.levels = levels_of(cluster, {r2.chain, {r2.chain.begin() + 1, r2.chain.end()}});
  if (tuning.r2_tail == Tuning::Tail::kLostFraction) {
    const double kept = cluster.server_rate(*degraded) / cluster.healthy_server_rate();
    r2.levels.levels[0].share = kept;
    r2.levels.levels[1].share = 1 - kept;
  }

  const auto bytes = static_cast<double>(request.bytes);
  const double tail_bytes = r2.tail().share * bytes;
  const std::uint32_t segments = segments_for(r2, bytes, cluster, tuning);
  Plan plan;
  plan.header = header_for(request, cluster, "r2");
  lay_out(r2.levels, segments, plan.header);
  if (cluster.fabric == Fabric::kRails) plan.header.shares = shares_by_rate(cluster);
  // What is on its way between a message's arrival and its receipt from the next server.
  const double flying = 2 * cluster.alpha_s * cluster.server_rate(*degraded) * segments / std::max(tail_bytes, 1.0);
  r2.depth = static_cast<std::uint32_t>(std::min(2 + std::ceil(flying), static_cast<double>(segments)));
  if (r2.chunks == 0) plan.header.scratch_slots = r2.depth * r2.tail().size();
  plan.predicted_s =
      rings_seconds(r2.levels, bytes, segments, cluster) + stage_two_seconds(r2, tail_bytes, segments, cluster);
  plan.lanes = [r2 = std::move(r2)](std::uint32_t rank) { return lanes_of(r2, rank); };
  return plan;
}

}  // namespace r2ccl
