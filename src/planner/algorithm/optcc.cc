// OptCC: four stages per segment around one slow server S. The N healthy ones reduce-scatter a segment around their
// ring, S exchanges one section with one of them at a time, and they all-gather it:
//   order 1 (patterns A, C): ring reduce, owner -> S, which adds its own, S -> owner, ring gather;
//   order 2 (patterns B, D): S -> head of the chain (its own raw section), ring reduce, ring gather, owner -> S.
// So S moves its data once each way, the least there is. Bodies of N slots are laid out such that each slot is one
// cycle over all servers, S spliced between healthy t and t + 1: every port has one peer per slot, and k segments take
// k + 1 bodies.
//
// Below half loss S would idle. Its spare time goes to ordinary rings over the cycle of the slot ("filling"): class t
// has its own rings, which go on a few steps in slot t of every body, so that the load of a slot is the same on all
// ports.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/pair_network.h"
#include "planner/algorithm/parts/port_lists.h"
#include "planner/algorithm/parts/straggler.h"
#include "planner/bounds.h"

namespace r2ccl {
namespace {

// What happens to a segment in a body of its cycle. Pattern 0..3 is A..D; `cycle` 0 is the body's own, -1 the one
// before.
struct StarEntry {
  std::uint32_t pattern = 0;
  std::int32_t cycle = 0;
};
struct RingStage {
  StarEntry entry;
  bool reduces = true;
};
struct StarBody {
  std::array<RingStage, 2> ring;
  StarEntry to_slow;
  StarEntry from_slow;
};
constexpr std::uint32_t kA = 0;
constexpr std::uint32_t kB = 1;
constexpr std::uint32_t kC = 2;
constexpr std::uint32_t kD = 3;
constexpr std::array<StarBody, 4> kBodies{{
    {{{{{kA, 0}, true}, {{kC, -1}, false}}}, {kD, -1}, {kB, 0}},
    {{{{{kB, 0}, true}, {{kC, 0}, true}}}, {kA, 0}, {kD, 0}},
    {{{{{kB, 0}, false}, {{kD, 0}, true}}}, {kC, 0}, {kA, 0}},
    {{{{{kA, 0}, false}, {{kD, 0}, false}}}, {kB, 0}, {kC, 0}},
}};
constexpr bool slow_first(std::uint32_t pattern) {
  return pattern == kB || pattern == kD;
}  // order 2

struct StarShape {
  std::uint32_t healthy = 0;   // N
  std::uint32_t slow = 0;      // rank of S
  std::uint32_t segments = 0;  // k
  double slowdown = 1;         // l
  std::uint32_t rings = 0;     // of each class; 0: no filling
  std::uint32_t steps = 0;     // fill steps of a slot, in some bodies one less
  std::uint32_t parts = 1;     // that sections of patterns C and D are cut into
  std::uint32_t lag = 0;       // slots that a port may be ahead of its peers; more than 0 hides latency

  std::uint32_t servers() const { return healthy + 1; }
  std::uint32_t bodies() const { return segments + 1; }
  std::uint32_t rank(std::uint32_t index) const { return index < slow ? index : index + 1; }
  std::uint32_t up(std::uint32_t index) const { return (index + 1) % healthy; }
  std::uint32_t down(std::uint32_t index) const { return (index + healthy - 1) % healthy; }

  // Pieces: the sections by segment, with their parts; then the rings, one piece per server.
  static bool is_cut(std::uint32_t segment) { return segment % 4 == kC || segment % 4 == kD; }
  std::uint32_t parts_of(std::uint32_t segment) const { return is_cut(segment) ? parts : 1; }
  std::uint32_t section(std::uint32_t segment, std::uint32_t number) const {
    const std::uint32_t cycle = 2 + 2 * parts;
    const std::uint32_t inside = std::min(segment % 4, 2U) + (segment % 4 == kD ? parts : 0);
    return (segment / 4 * cycle + inside) * healthy + number * parts_of(segment);
  }
  std::uint32_t fill_piece(std::uint32_t ring, std::uint32_t number) const {
    return section(segments, 0) + ring * servers() + number;
  }
  std::uint32_t pieces() const { return fill_piece(healthy * rings, 0); }

  std::uint32_t ring_steps() const { return 2 * healthy; }
  // Of the fill steps of a class, those before body `body`. The bodies that have one less are spread evenly, the first
  // and the last among them: with half of the stages missing, these two need it least.
  std::uint32_t fill_before(std::uint32_t body) const {
    const std::uint32_t missing = steps * bodies() - rings * ring_steps();
    const std::uint32_t gaps = missing > 1 ? missing - 1 : 1;
    const std::uint32_t passed = (body * gaps + segments - 1) / segments;
    return steps * body - std::min(missing, passed);
  }
};

constexpr std::uint32_t kNoSegment = UINT32_MAX;

// One member's lists: healthy 0 .. N - 1, or S as number N.
class StarMember final {
 public:
  StarMember(const StarShape& shape, std::uint32_t number)
      : shape_(shape), me_(number), lists_(shape.pieces(), messages()) {}

  std::vector<Lane> lanes() {
    for (std::uint32_t body = 0; body < shape_.bodies(); ++body) {
      for (std::uint32_t slot = 0; slot < shape_.healthy; ++slot) emit_slot(body, slot);
    }
    return lists_.take();
  }

 private:
  bool slow() const { return me_ == shape_.healthy; }
  std::size_t messages() const {
    const std::size_t sections = std::size_t{1 + shape_.parts} * shape_.bodies() * shape_.healthy;
    return sections + std::size_t{shape_.healthy} * shape_.rings * shape_.ring_steps();
  }
  std::uint32_t segment(std::uint32_t body, const StarEntry& entry) const {
    const std::int64_t segment = (std::int64_t{body / 4} + entry.cycle) * 4 + entry.pattern;
    return segment >= 0 && segment < shape_.segments ? static_cast<std::uint32_t>(segment) : kNoSegment;
  }
  std::uint32_t rank_after(std::uint32_t slot) const {
    if (slow()) return shape_.rank(shape_.up(slot));
    return me_ == slot ? shape_.slow : shape_.rank(shape_.up(me_));
  }
  std::uint32_t rank_before(std::uint32_t slot) const {
    if (slow()) return shape_.rank(slot);
    return me_ == shape_.up(slot) ? shape_.slow : shape_.rank(shape_.down(me_));
  }

  // The fill steps of a slot depend on each other around the cycle, and S, which has its section first, paces them. So
  // the others have the second section in parts between the steps, or not cut before or amid the two.
  void emit_slot(std::uint32_t body, std::uint32_t slot) {
    // Ports with time to spare are kept in step too, but not where the messages of a slot are many and wait for each
    // other.
    lists_.fence(shape_.lag, shape_.parts == 1);
    const std::uint32_t first = shape_.fill_before(body);
    const std::uint32_t last = shape_.fill_before(body + 1);
    const std::uint32_t start = shape_.parts == 1 && last - first == 2 && shape_.slowdown < 1.5 ? 1 : 0;
    emit_exchange(body, slot);
    emit_ring(body, slot, 0, 0);
    for (std::uint32_t j = 0; j < last - first; ++j) {
      if (j >= start && j - start < shape_.parts) emit_ring(body, slot, 1, j - start);
      emit_fill(slot, first + j);
    }
    for (std::uint32_t part = last - first - start; part < shape_.parts; ++part) emit_ring(body, slot, 1, part);
  }

  void emit_ring(std::uint32_t body, std::uint32_t slot, std::uint32_t stage, std::uint32_t part) {
    const RingStage& ring = kBodies[body % 4].ring[stage];
    const std::uint32_t number = segment(body, ring.entry);
    if (slow() || number == kNoSegment) return;
    const Arrival arrival = ring.reduces ? Arrival::kAdded : Arrival::kStored;
    if (me_ != slot) lists_.send(rank_after(slot), ring_section(me_, slot, number, ring.reduces) + part);
    if (me_ == shape_.up(slot)) return;
    lists_.receive(rank_before(slot), ring_section(shape_.down(me_), slot, number, ring.reduces) + part, arrival);
  }

  // What edge i -> i + 1 of the healthy ring carries: it misses the slot in which its two ends are busy with S.
  std::uint32_t ring_section(std::uint32_t edge, std::uint32_t slot, std::uint32_t segment, bool reduces) const {
    const std::uint32_t n = shape_.healthy;
    const std::uint32_t step = slot < edge ? slot : slot - 1;
    return shape_.section(segment, (edge + 2 * n - step - (reduces ? 1 : 0)) % n);
  }

  // Sections that S and its two neighbours of this slot exchange: t gives section t; t + 1 gets the raw section t or
  // its own sum.
  void emit_exchange(std::uint32_t body, std::uint32_t slot) {
    const StarBody& what = kBodies[body % 4];
    if (slow() || me_ == slot) exchange_out(body, slot, slow() ? what.from_slow : what.to_slow);
    if (slow() || me_ == shape_.up(slot)) exchange_in(body, slot, slow() ? what.to_slow : what.from_slow);
  }
  void exchange_out(std::uint32_t body, std::uint32_t slot, const StarEntry& entry) {
    const std::uint32_t number = segment(body, entry);
    if (number == kNoSegment) return;
    const std::uint32_t section = shape_.section(number, slow() && !slow_first(entry.pattern) ? shape_.up(slot) : slot);
    for (std::uint32_t part = 0; part < shape_.parts_of(number); ++part) lists_.send(rank_after(slot), section + part);
  }
  // S adds what it has not given before; a chain's head adds the raw section it gets.
  void exchange_in(std::uint32_t body, std::uint32_t slot, const StarEntry& entry) {
    const std::uint32_t number = segment(body, entry);
    if (number == kNoSegment) return;
    const bool raw = slow_first(entry.pattern);
    const std::uint32_t section = shape_.section(number, slow() || raw ? slot : shape_.up(slot));
    const Arrival arrival = slow() != raw ? Arrival::kAdded : Arrival::kStored;
    for (std::uint32_t part = 0; part < shape_.parts_of(number); ++part) {
      lists_.receive(rank_before(slot), section + part, arrival);
    }
  }

  // Step `step` of the rings of class `slot`: S has place 0 in their cycle, healthy t + 1 place 1 and so on.
  void emit_fill(std::uint32_t slot, std::uint32_t step) {
    const std::uint32_t p = shape_.servers();
    const std::uint32_t ring = slot * shape_.rings + step / shape_.ring_steps();
    const std::uint32_t hop = step % shape_.ring_steps();
    const std::uint32_t place = slow() ? 0 : (me_ + shape_.healthy - slot - 1) % shape_.healthy + 1;
    const std::uint32_t sent = (place + 2 * p - hop) % p;
    lists_.send(rank_after(slot), shape_.fill_piece(ring, sent));
    lists_.receive(rank_before(slot), shape_.fill_piece(ring, (sent + p - 1) % p),
                   hop < p - 1 ? Arrival::kAdded : Arrival::kStored);
  }

  const StarShape& shape_;
  std::uint32_t me_;
  PortLists lists_;
};

// Sizes as shares of the data.
struct Sizes {
  double section = 0;
  double fill = 0;  // one message of a ring
};

// In a slot of unit length sections are 1 - 1/l and every edge of the cycle has 2/l - 1 left; without filling a slot is
// as long as two sections, or one at S's rate.
Sizes sizes_of(const StarShape& shape) {
  const double l = shape.slowdown;
  const double n = shape.healthy;
  if (shape.rings == 0) return {1 / (shape.segments * n), 0};
  const double section = 1 - 1 / l;
  const double fill = (2 / l - 1) / shape.steps;
  const double data = n * (shape.segments * section + shape.rings * fill * shape.servers());
  return {section / data, fill / data};
}

// The time of a slot at unit rate: that of a healthy port with its neighbour, or of one that S paces.
double slot_time(const StarShape& shape, const Sizes& sizes, std::uint32_t body) {
  const double fill = (shape.fill_before(body + 1) - shape.fill_before(body)) * sizes.fill;
  const bool half = body == 0 || body == shape.segments;  // of the stages
  return std::max((half ? 1 : 2) * sizes.section + fill, shape.slowdown * (sizes.section + fill));
}

double total_time(const StarShape& shape, const Sizes& sizes, double unit_s, const Cluster& cluster) {
  double total_s = 0;
  for (std::uint32_t body = 0; body < shape.bodies(); ++body) {
    const double slot_s = slot_time(shape, sizes, body) * unit_s + (2 + shape.steps) * cluster.port_cost_s;
    // Half a slot is there to hide the latency of the other half's messages.
    total_s += shape.healthy * std::max(slot_s, slot_s / 2 + cluster.alpha_s);
  }
  return total_s;
}

std::vector<std::uint64_t> bounds_of_shape(const StarShape& shape, const Sizes& sizes) {
  std::vector<double> weights;
  weights.reserve(shape.pieces());
  // A part lasts as long as S's fill step takes longer than the others'; the first also as long as its section does.
  const double part = shape.parts > 1 ? (2 - shape.slowdown) / shape.steps * sizes.section : 0;
  for (std::uint32_t segment = 0; segment < shape.segments; ++segment) {
    for (std::uint32_t number = 0; number < shape.healthy; ++number) {
      const std::uint32_t further = shape.parts_of(segment) - 1;
      weights.push_back(sizes.section - further * part);
      weights.resize(weights.size() + further, part);
    }
  }
  weights.resize(shape.pieces(), sizes.fill);
  return piece_bounds(weights, std::uint64_t{1} << 40);
}

// Two steps of a class per slot, or as many as one ring needs to end in time. Whole rings only.
void choose_filling(StarShape& shape) {
  if (shape.slowdown >= 2 - 1e-9) return;
  shape.steps = std::max(2U, (shape.ring_steps() + shape.bodies() - 1) / shape.bodies());
  shape.rings = shape.steps * shape.bodies() / shape.ring_steps();
  shape.parts = shape.steps > 2 ? shape.steps : 1;
}

std::uint32_t choose_segments(const Request& request, const Cluster& cluster, double slowdown) {
  const double unit_s = static_cast<double>(request.bytes) / cluster.healthy_server_rate();
  const std::uint32_t n = cluster.servers - 1;
  std::uint32_t best = 4;
  double best_s = 0;
  for (std::uint32_t k = 4; k <= 64; k *= 2) {
    if (k > 4 && request.bytes / (std::uint64_t{k} * n) < cluster.min_message) break;
    const double slot_s = std::max(slowdown, 2.0) * unit_s / (k * n);
    const double cost = (k + 1) * n * std::max(slot_s + 2 * cluster.port_cost_s, slot_s / 2 + cluster.alpha_s);
    if (k > 4 && cost >= best_s) continue;
    best = k;
    best_s = cost;
  }
  return best;
}

}  // namespace

Result<Plan> plan_optcc(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  const Result<Straggler> straggler = find_straggler(cluster, "optcc", 3);
  if (!straggler) return std::unexpected(straggler.error());
  const double slowdown = straggler->slowdown;
  const std::uint32_t segments = tuning.segments.value_or(choose_segments(request, cluster, slowdown));
  if (segments == 0 || segments % 4 != 0) {
    return fail(Fault::kMisuse, fmt::format("optcc needs a multiple of 4 segments; {} given", segments));
  }
  StarShape shape{
      .healthy = cluster.servers - 1, .slow = straggler->server, .segments = segments, .slowdown = slowdown};
  choose_filling(shape);
  const Sizes sizes = sizes_of(shape);
  const double unit_s = static_cast<double>(request.bytes) / cluster.healthy_server_rate();
  const double slot_s = slot_time(shape, sizes, 1) * unit_s;
  shape.lag = static_cast<std::uint32_t>(std::min(30.0, std::ceil(2 * cluster.alpha_s / std::max(slot_s, 1e-9))));
  Plan plan;
  plan.header = header_for(request, cluster, "optcc");
  plan.header.layout.bounds = bounds_of_shape(shape, sizes);
  plan.header.slots = slots_for(slot_s / (2 + shape.steps), cluster.alpha_s);
  plan.predicted_s = total_time(shape, sizes, unit_s, cluster);
  plan.lanes = [shape](std::uint32_t rank) {
    const std::uint32_t number = rank == shape.slow ? shape.healthy : rank < shape.slow ? rank : rank - 1;
    return StarMember(shape, number).lanes();
  };
  return plan;
}

}  // namespace r2ccl
