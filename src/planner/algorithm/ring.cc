// The ring: reduce-scatter then all-gather around all members, 2 (p - 1) steps, in every rail at once. Each rail carries its own
// part of the data, cut into one piece per member; pieces are cut into a few segments so that the next is on the wire while one
// is added.

#include "planner/algorithm/ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/assert.h"
#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/steps.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kFewestSegments = 4;
constexpr std::uint32_t kMostSegments = 64;
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

std::vector<Lane> rings_of(std::uint32_t rank, const RingSet& rings, std::uint32_t segments) {
  std::vector<Lane> lanes;
  for (std::uint32_t k = 0; k < rings.orders.size(); ++k) {
    std::optional<RingPlace> place = place_in(rings.orders[k], rank);
    R2CCL_ASSERT(place.has_value(), "a ring over all ranks misses one");
    place->first_piece = k * place->members;
    place->channel = k;
    lanes.push_back(ring_lane(*place, segments, rings.pinned ? static_cast<std::int32_t>(k) : kAnyRail));
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
  const double step_s = std::max(message_s * segments, message_s + cluster.alpha_s);
  return (2.0 * load.members - 3) * step_s + message_s * segments + cluster.alpha_s;
}

std::uint32_t choose_ring_segments(double message_bytes, const Cluster& cluster, const Tuning& tuning,
                                   const std::function<double(std::uint32_t)>& seconds) {
  if (tuning.segments) return *tuning.segments;
  std::uint32_t best = 1;
  double best_s = seconds(1);
  for (std::uint32_t segments = 2; segments <= kMostSegments; segments *= 2) {
    if (message_bytes / segments < static_cast<double>(cluster.min_message)) break;
    const double s = seconds(segments);
    if (s >= best_s && segments > kFewestSegments) continue;
    best = segments;
    best_s = s;
  }
  return best;
}

void set_rings(Plan& plan, RingSet rings, RingLoad load, const Request& request, const Cluster& cluster,
               const Tuning& tuning) {
  const std::uint32_t p = cluster.ranks();
  if (p == 1) {
    plan.frame.layout = Layout::equal(1);
    plan.lanes = [](std::uint32_t) { return copy_all(); };
    return;
  }
  const auto count = static_cast<std::uint32_t>(rings.orders.size());
  load.members = p;
  load.piece_bytes = static_cast<double>(request.bytes) / count / p;
  const auto seconds = [&](std::uint32_t segments) { return ring_seconds(load, segments, cluster); };
  const std::uint32_t segments = choose_ring_segments(load.piece_bytes, cluster, tuning, seconds);
  plan.frame.layout = Layout::equal(count * p, segments);
  plan.frame.slots = ring_slots(segments);
  plan.predicted_s = seconds(segments);
  plan.lanes = [rings = std::move(rings), segments](std::uint32_t rank) { return rings_of(rank, rings, segments); };
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
  plan.frame = frame_for(request, cluster, "ring");
  set_rings(plan, std::move(rings), {.rate = rate}, request, cluster, tuning);
  return plan;
}

}  // namespace r2ccl
