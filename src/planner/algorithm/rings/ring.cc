// The ring: reduce-scatter then all-gather around all members, 2 (p - 1) steps, in every rail at once. Each rail
// carries its own part of the data, cut into one piece per member; pieces are cut into a few segments so that the next
// is on the wire while one is added.
//
// Where few members are in a ring and it takes no longer, the ring runs as a wave: while a segment of every piece
// starts, the segment before makes its second step, and so on. Then only a few segments are under way, however large
// the data are; with the steps one after another it would be whole pieces.

#include "planner/algorithm/rings/ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/assert.h"
#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/steps.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kFewestSegments = 4;  // whatever they cost: the wire goes on while one is added
constexpr double kWholeInMemory = 256 << 10;  // where nothing leaves the machine, such pieces are not cut for that
constexpr std::uint32_t kMostSegments = 64;
// A wave lists its steps one by one. Of many members pieces are small and few are under way at once, anyhow.
constexpr std::uint32_t kWaveMembersMost = 16;
constexpr std::uint32_t kWaveSegmentsMost = 1024;
constexpr double kWaveWorth = 1.01;         // times as long as the steps one after another: what it may cost
constexpr double kWaveBytes = 32 << 20;     // under way to a member, of all its rings,
constexpr double kWaveMessage = 256 << 10;  // but messages need not be smaller than this for it
// Steps of ring_steps().
constexpr std::uint32_t kSumStep = 2;
constexpr std::uint32_t kForwardStep = 3;
constexpr std::uint32_t kLastStep = 4;

// The first of the GPUs whose own NIC is nearest to `nic` from below.
std::uint32_t gpu_near(const Cluster& cluster, std::uint32_t nic) {
  std::uint32_t nearest = 0;
  for (std::uint32_t gpu = 1; gpu < cluster.gpus; ++gpu) {
    const std::uint32_t home = cluster.home_nic(gpu);
    if (home <= nic && home > cluster.home_nic(nearest)) nearest = gpu;
  }
  return nearest;
}

// Ring k enters every server at the GPU nearest to NIC k, so no GPU is the entry of all rails.
std::vector<std::uint32_t> flat_order(const Cluster& cluster, std::uint32_t rail) {
  const std::uint32_t entry = gpu_near(cluster, rail);
  std::vector<std::uint32_t> order;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    for (std::uint32_t i = 0; i < cluster.gpus; ++i) {
      order.push_back(server * cluster.gpus + (entry + i) % cluster.gpus);
    }
  }
  return order;
}

Lane wave_lane(const RingPlace& place, std::uint32_t segments, std::int32_t rail) {
  const std::uint32_t last = 2 * place.members - 2;
  Lane lane = ring_lane(place, 1, rail);
  const std::vector<Step> kinds = std::exchange(lane.steps, {});
  for (std::uint32_t o = 0; o <= last; ++o) {
    const auto kind =
        std::ranges::find_if(kinds, [o](const Step& step) { return step.outer_begin <= o && o < step.outer_end; });
    Step step = during(o, o + segments, *kind);
    step.span = fixed(kind->span.at(o, 0));
    step.segment = outer_plus(-static_cast<std::int32_t>(o));
    lane.steps.push_back(std::move(step));
  }
  lane.outer = segments + last;
  return lane;
}

// A round sends and receives one message of every step, or of every segment if they are fewer; twice as many cover the
// receipts' way back too.
constexpr std::uint32_t wave_slots_most(std::uint32_t members) {
  return 4 * members;
}
std::uint32_t wave_slots(std::uint32_t members, std::uint32_t segments) {
  return std::min(wave_slots_most(members), ring_slots(segments));
}

double latency_s(const RingLoad& load, const Cluster& cluster) {
  return cluster.alpha_s + (load.rings - 1) * cluster.rank_cost_s;
}

// Round t has the steps o with 0 <= t - o < segments; none is shorter than the latency of one message, but for the
// first of several, which waits for nobody.
double wave_seconds(const RingLoad& load, std::uint32_t segments, const Cluster& cluster) {
  const double message_s = load.piece_bytes / segments / load.rate + cluster.port_cost_s;
  const std::uint32_t steps = 2 * load.members - 2;
  const std::uint32_t most = std::min(steps, segments);  // messages of a full round
  const auto round_s = [&](std::uint32_t messages) {
    return std::max(message_s * messages, message_s + latency_s(load, cluster));
  };
  double seconds = (steps + segments + 1 - 2 * most) * round_s(most) - (segments > 1 ? cluster.alpha_s : 0);
  for (std::uint32_t messages = 1; messages < most; ++messages) seconds += 2 * round_s(messages);
  return seconds;
}

// How rings are cut and in which order they run.
struct RingShape {
  bool wave = false;
  std::uint32_t segments = 1;
  double seconds = 0;
};

RingShape steps_in_turn(const RingLoad& load, const Cluster& cluster, const Tuning& tuning) {
  const auto seconds = [&](std::uint32_t segments) { return ring_seconds(load, segments, cluster); };
  const std::uint32_t segments = choose_ring_segments(load.piece_bytes, cluster, tuning, seconds);
  return {false, segments, seconds(segments)};
}

RingShape wave_of(const RingLoad& load, const Cluster& cluster, const Tuning& tuning) {
  const auto seconds = [&](std::uint32_t segments) { return wave_seconds(load, segments, cluster); };
  std::uint32_t segments = choose_ring_segments(load.piece_bytes, cluster, tuning, seconds);
  const double message_most = std::max(kWaveBytes / wave_slots_most(load.members) / load.rings, kWaveMessage);
  while (!tuning.segments && segments < kWaveSegmentsMost && load.piece_bytes / segments > message_most) segments *= 2;
  return {true, segments, seconds(segments)};
}

RingShape choose_shape(const RingLoad& load, const Cluster& cluster, const Tuning& tuning) {
  const RingShape in_turn = steps_in_turn(load, cluster, tuning);
  if (load.members > kWaveMembersMost) return in_turn;
  const RingShape wave = wave_of(load, cluster, tuning);
  return wave.seconds <= kWaveWorth * in_turn.seconds ? wave : in_turn;
}

std::vector<Lane> rings_of(std::uint32_t rank, const RingSet& rings, const RingShape& shape) {
  std::vector<Lane> lanes;
  for (std::uint32_t k = 0; k < rings.orders.size(); ++k) {
    std::optional<RingPlace> place = place_in(rings.orders[k], rank);
    R2CCL_ASSERT(place.has_value(), "a ring over all ranks misses one");
    place->first_piece = k * place->members;
    place->channel = k;
    const std::int32_t rail = rings.pinned ? static_cast<std::int32_t>(k) : kAnyRail;
    lanes.push_back(shape.wave ? wave_lane(*place, shape.segments, rail) : ring_lane(*place, shape.segments, rail));
  }
  return lanes;
}

std::vector<Lane> copy_all() {
  Lane lane{.name = "copy", .steps = {copy({fixed(0), fixed(0)}, Buffer::kInput, Buffer::kOutput)}};
  return {std::move(lane)};
}

}  // namespace

std::optional<RingPlace> place_in(std::span<const std::uint32_t> order, std::uint32_t rank) {
  const auto members = static_cast<std::uint32_t>(order.size());
  const auto found = std::ranges::find(order, rank);
  if (found == order.end()) return std::nullopt;
  const auto position = static_cast<std::uint32_t>(found - order.begin());
  return RingPlace{.members = members,
                   .position = position,
                   .next = order[(position + 1) % members],
                   .previous = order[(position + members - 1) % members]};
}

std::vector<Step> ring_steps(const RingPlace& place) {
  const std::uint32_t p = place.members;
  const Index to = fixed(place.next);
  const Index from = fixed(place.previous);
  // In step o the piece that started at the member o places before this one comes by.
  const Index piece{.base = static_cast<std::int32_t>(place.position),
                    .by_outer = -1,
                    .modulo = p,
                    .scale = static_cast<std::int32_t>(place.stride),
                    .offset = static_cast<std::int32_t>(place.first_piece)};
  const Where where{piece, inner_index()};
  const std::uint32_t channel = place.channel;
  const Step relay = recv_reduce(from, where, Buffer::kInput, Buffer::kNone, channel);
  const Step sum = recv_reduce(from, where, Buffer::kInput, Buffer::kOutput, channel);
  const Step result = recv(from, where, Buffer::kOutput, channel);
  return {during(0, 1, send(to, where, Buffer::kInput, channel)), during(1, p - 1, and_send(relay, to, channel)),
          during(p - 1, p, and_send(sum, to, channel)), during(p, 2 * p - 2, and_send(result, to, channel)),
          during(2 * p - 2, 2 * p - 1, result)};
}

std::uint32_t ring_slots(std::uint32_t segments) {
  return 2 * segments;
}

Lane ring_lane(const RingPlace& place, std::uint32_t segments, std::int32_t rail) {
  return {.name = rail == kAnyRail ? fmt::format("ring_{}", place.channel)
                                   : fmt::format("ring_{}_rail_{}", place.channel, rail),
          .outer = 2 * place.members - 1,
          .inner = segments,
          .rail = rail,
          .steps = ring_steps(place)};
}

std::vector<Wait> ring_over(std::uint32_t lane, std::uint32_t members, RingEnd end) {
  const auto p = static_cast<std::int32_t>(members);
  std::vector<Wait> waits{{.lane = lane, .step = kLastStep, .outer_offset = 2 * p - 2}};
  if (end == RingEnd::kResults) return waits;
  waits.push_back({.lane = lane, .step = kSumStep, .outer_offset = p - 1});
  for (std::int32_t o = p; o < 2 * p - 2; ++o) waits.push_back({.lane = lane, .step = kForwardStep, .outer_offset = o});
  return waits;
}

double ring_seconds(const RingLoad& load, std::uint32_t segments, const Cluster& cluster) {
  if (load.members < 2) return 0;
  const double message_s = load.piece_bytes / segments / load.rate + cluster.port_cost_s;
  const double step_s = std::max(message_s * segments, message_s + latency_s(load, cluster));
  return (2.0 * load.members - 3) * step_s + message_s * segments + cluster.alpha_s;
}

std::uint32_t choose_ring_segments(double message_bytes, const Cluster& cluster, const Tuning& tuning,
                                   const std::function<double(std::uint32_t)>& seconds) {
  if (tuning.segments) return *tuning.segments;
  const std::uint32_t fewest = cluster.wired || message_bytes < kWholeInMemory ? kFewestSegments : 1;
  std::uint32_t best = 1;
  double best_s = seconds(1);
  for (std::uint32_t segments = 2; segments <= kMostSegments; segments *= 2) {
    if (message_bytes / segments < static_cast<double>(cluster.min_message)) break;
    const double s = seconds(segments);
    if (s >= best_s && segments > fewest) continue;
    best = segments;
    best_s = s;
  }
  return best;
}

void set_rings(Plan& plan, RingSet rings, RingLoad load, const Request& request, const Cluster& cluster,
               const Tuning& tuning) {
  const std::uint32_t p = cluster.ranks();
  if (p == 1) {
    plan.header.layout = Layout::equal(1);
    plan.lanes = [](std::uint32_t) { return copy_all(); };
    return;
  }
  const auto count = static_cast<std::uint32_t>(rings.orders.size());
  load.members = p;
  load.rings = count;
  load.piece_bytes = static_cast<double>(request.bytes) / count / p;
  const RingShape shape = choose_shape(load, cluster, tuning);
  plan.header.layout = Layout::equal(count * p, shape.segments);
  plan.header.slots = shape.wave ? wave_slots(p, shape.segments) : ring_slots(shape.segments);
  plan.predicted_s = shape.seconds;
  plan.lanes = [rings = std::move(rings), shape](std::uint32_t rank) { return rings_of(rank, rings, shape); };
}

Status needs_one_gpu(const Cluster& cluster, std::string_view algorithm) {
  if (cluster.gpus == 1) return {};
  return fail(Fault::kMisuse, fmt::format("{} plans for one GPU per server, not {}; hierarchical lifts it to several",
                                          algorithm, cluster.gpus));
}

std::vector<std::uint32_t> in_turn(std::uint32_t count) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

RailShares shares_by_rate(const Cluster& cluster) {
  const std::uint32_t q = cluster.servers;
  const std::uint32_t m = cluster.nics;
  RailShares shares{q, m, std::vector<std::uint16_t>(std::size_t{q} * q * m, 0)};
  std::vector<double> common(m);
  for (std::uint32_t u = 0; u < q; ++u) {
    for (std::uint32_t v = 0; v < q; ++v) {
      for (std::uint32_t k = 0; k < m; ++k) common[k] = u == v ? 1.0 : std::min(cluster.nic(u, k), cluster.nic(v, k));
      if (std::ranges::all_of(common, [](double c) { return c <= 0; })) continue;
      const std::vector<std::uint64_t> bounds = piece_bounds(common, kShareUnit);
      for (std::uint32_t k = 0; k < m; ++k) {
        shares.share[(std::size_t{u} * q + v) * m + k] = static_cast<std::uint16_t>(bounds[k + 1] - bounds[k]);
      }
    }
  }
  return shares;
}

Result<Plan> plan_ring(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  const double slowest = *std::ranges::min_element(cluster.rate);
  if (cluster.servers > 1 && slowest <= 0) {
    return fail(Fault::kMisuse,
                "ring needs every NIC alive, a rail of its own for each part of the data; balance does without");
  }
  RingSet rings;
  for (std::uint32_t k = 0; k < cluster.nics; ++k) rings.orders.push_back(flat_order(cluster, k));
  // All rings of a server cross the fabric of the same GPUs.
  const double inside = cluster.intra_rate / cluster.nics;
  const double rate = cluster.servers == 1 ? inside : cluster.gpus == 1 ? slowest : std::min(slowest, inside);
  Plan plan;
  plan.header = header_for(request, cluster, "ring");
  set_rings(plan, std::move(rings), {.rate = rate}, request, cluster, tuning);
  return plan;
}

}  // namespace r2ccl
