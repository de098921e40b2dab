// Several ranks per server: reduce-scatter inside each server, any algorithm between servers per GPU on its shard,
// all-gather inside. The algorithm between servers is planned for one rank per server and lifted: GPU i of every server
// runs it on shard i, in place on the output, where the reduce-scatter left the server's sum. Two ways to overlap the
// three stages:
//
//   by segment    where the lanes between servers go through the segments one after another; the stages inside the
//                 server do the same, each segment at its own time.
//   by instance   any other lanes: the data is cut into a few parts and each part has lanes of its own.
//
// Layout: the segments outside, each cut into one shard per GPU, each shard into the pieces of the algorithm between
// servers. So a shard of a segment is contiguous and moves inside the server as one message. Lanes between servers use
// other pairs of ranks than lanes inside, so their channels can not meet.

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "base/assert.h"
#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/intra.h"
#include "planner/algorithm/parts/steps.h"
#include "planner/owners.h"
#include "planner/pipeline.h"

namespace r2ccl {
namespace {

// The stages inside a server ask for more segments than the exchange alone; with many servers that is too many
// messages.
constexpr std::uint32_t kMostSegments = 96;
constexpr std::uint32_t kMostSegmentsOfFew = 128;
constexpr std::uint32_t kFewServers = 16;
constexpr std::uint32_t kMostInstances = 8;
constexpr std::uint32_t kMostLanes = 64;  // between servers, of one rank
// Segments that the reduce-scatter inside a server may be ahead of the exchange between servers, and how many where
// they are short. Fewer expose latency; more fill the fabric's queues, in front of what is urgent.
constexpr double kPace = 4;
constexpr double kMostPace = 8;

// The plan between servers that is lifted, and how.
struct Composition {
  Plan between;
  std::uint32_t gpus = 1;
  bool by_segment = true;
  std::uint32_t instances = 1;
  std::int32_t pace = 0;  // by segment
  std::vector<double>
      weights;  // of the pieces, GPU by GPU, where shards differ; empty: all are cut like the plan between servers
};

// c where the index is outer + c.
std::optional<std::int32_t> behind_outer(const Index& index) {
  if (index.by_outer != 1 || index.by_inner != 0 || index.modulo != 0 || index.scale != 1) return std::nullopt;
  return index.base + index.offset;
}

bool goes_by_segment(const Plan& plan) {
  for (std::uint32_t rank = 0; rank < plan.header.ranks; ++rank) {
    for (const Lane& lane : plan.lanes(rank)) {
      if (!std::all_of(lane.steps.begin(), lane.steps.end(),
                       [](const Step& s) { return behind_outer(s.segment).has_value(); })) {
        return false;
      }
    }
  }
  return true;
}

bool uses_data(const Step& step) {
  return step.source.buffer == Buffer::kInput || (step.has_first && step.first_source == Buffer::kInput) ||
         step.destination.buffer == Buffer::kOutput;
}

Layout lifted_layout(const Composition& c) {
  const Layout& between = c.between.header.layout;
  Layout layout;
  layout.segments = between.segments * c.instances;
  layout.bounds = {0};
  if (!c.weights.empty()) layout.bounds = piece_bounds(c.weights);
  for (std::uint32_t gpu = 0; c.weights.empty() && gpu < c.gpus; ++gpu) {
    const std::uint64_t start = gpu * between.bounds.back();
    for (std::uint32_t piece = 1; piece <= between.pieces(); ++piece)
      layout.bounds.push_back(start + between.bounds[piece]);
  }
  for (std::uint32_t gpu = 0; gpu < c.gpus; ++gpu) layout.spans.push_back({gpu * between.pieces(), between.pieces()});
  for (std::uint32_t gpu = 0; gpu < c.gpus; ++gpu) {
    for (const Span& span : between.spans) layout.spans.push_back({gpu * between.pieces() + span.first, span.count});
  }
  return layout;
}

// The lanes of one rank.
class Lifting {
 public:
  Lifting(const Composition& c, std::uint32_t rank)
      : c_(c), place_{rank / c.gpus, rank % c.gpus, c.gpus}, between_(c.between.lanes(place_.server)) {}

  std::vector<Lane> lanes() const;

 private:
  std::uint32_t segments() const { return c_.between.header.layout.segments; }
  std::uint32_t pieces() const { return c_.between.header.layout.pieces(); }
  std::uint32_t lifted() const { return static_cast<std::uint32_t>(between_.size()) * c_.instances; }
  std::uint32_t reduce_in(std::uint32_t instance) const { return lifted() + 1 + instance; }
  // The span number of the shard of GPU base ± inner.
  Index shard(Index gpu) const {
    gpu.offset = static_cast<std::int32_t>(c_.gpus * pieces());
    return gpu;
  }

  Index lift_rank(Index rank) const;
  Index lift_span(const Step& step, const Lane& lane) const;
  Operand lift_operand(Operand operand, std::uint32_t instance) const;
  Step lift(Step step, const Lane& lane, std::uint32_t instance) const;
  Lane inside(const char* name, std::uint32_t outer) const {
    return {.name = name, .outer = outer, .inner = c_.gpus - 1, .steps = {}};
  }

  void add_reduce(std::vector<Lane>& lanes) const;
  void add_gather(std::vector<Lane>& lanes) const;
  std::vector<Wait> written(std::uint32_t instance) const;
  std::vector<Wait> paced() const;

  const Composition& c_;
  LocalPlace place_;
  std::vector<Lane> between_;
};

Index Lifting::lift_rank(Index rank) const {
  const auto g = static_cast<std::int32_t>(c_.gpus);
  rank.scale *= g;
  rank.offset = rank.offset * g + static_cast<std::int32_t>(place_.gpu);
  return rank;
}

// Pieces stay neighbours of their shard and spans are numbered after all pieces, so an index must stay among one or the
// other.
Index Lifting::lift_span(const Step& step, const Lane& lane) const {
  const std::uint32_t spans = static_cast<std::uint32_t>(c_.between.header.layout.spans.size());
  Index span = step.span;
  bool piece = true;
  if (spans != 0) {
    const std::uint32_t outer_last = std::min(step.outer_end, lane.outer) - 1;
    const auto is_piece = [&](std::uint32_t outer, std::uint32_t inner) { return span.at(outer, inner) < pieces(); };
    piece = is_piece(step.outer_begin, 0);
    R2CCL_ASSERT(piece == is_piece(outer_last, std::max(lane.inner, 1U) - 1),
                 "a step over pieces and spans can not be lifted");
  }
  const std::uint32_t shift =
      piece ? place_.gpu * pieces() : c_.gpus * pieces() + c_.gpus + place_.gpu * spans - pieces();
  span.offset += static_cast<std::int32_t>(shift);
  return span;
}

Operand Lifting::lift_operand(Operand operand, std::uint32_t instance) const {
  const auto n = static_cast<std::int32_t>(c_.instances);
  if (operand.buffer == Buffer::kInput) operand.buffer = Buffer::kOutput;
  operand.slot.scale *= n;
  operand.slot.offset = operand.slot.offset * n + static_cast<std::int32_t>(instance);
  if (operand.buffer != Buffer::kScratch) operand.slot = {};
  return operand;
}

Step Lifting::lift(Step step, const Lane& lane, std::uint32_t instance) const {
  for (Wait& wait : step.waits) wait.lane += instance * static_cast<std::uint32_t>(between_.size());
  if (uses_data(step)) {
    // By instance, the lane that reduces inside the server idles as long as any other: its later iterations end with
    // its first.
    const std::int32_t segment = c_.by_segment ? *behind_outer(step.segment) : 0;
    step.waits.push_back(
        {.lane = reduce_in(instance), .step = c_.by_segment ? 0 : segments() - 1, .outer_offset = segment});
  }
  step.from = lift_rank(step.from);
  step.to = lift_rank(step.to);
  step.channel_in = step.channel_in * c_.instances + instance;
  step.channel_out = step.channel_out * c_.instances + instance;
  step.span = lift_span(step, lane);
  step.segment.offset += static_cast<std::int32_t>(instance * segments());
  step.source = lift_operand(step.source, instance);
  step.destination = lift_operand(step.destination, instance);
  if (step.first_source == Buffer::kInput) step.first_source = Buffer::kOutput;
  return step;
}

// What the reduce-scatter stays close to: without it, it would run ahead at the fabric's full speed and the rest would
// queue behind it.
std::vector<Wait> Lifting::paced() const {
  std::vector<Wait> waits;
  for (std::uint32_t l = 0; l < between_.size(); ++l) {
    const std::vector<Step>& steps = between_[l].steps;
    const auto first = std::find_if(steps.begin(), steps.end(), [](const Step& step) {
      return step.destination.buffer == Buffer::kOutput && *behind_outer(step.segment) == 0;
    });
    if (first == steps.end()) continue;
    waits.push_back({.lane = l, .step = static_cast<std::uint32_t>(first - steps.begin()), .outer_offset = -c_.pace});
  }
  return waits;
}

// GPU i adds up shard i of every segment. By instance each has a receiving lane: then a lane between servers can wait
// for it whatever its own iteration is.
void Lifting::add_reduce(std::vector<Lane>& lanes) const {
  const Index mine = shard(fixed(place_.gpu));
  const Index theirs = shard(rotate(place_.gpu + 1, 1, c_.gpus));
  Lane out = inside("local_rs_out", c_.by_segment ? segments() : 1);
  if (c_.by_segment) {
    out.steps.push_back(send(place_.next(), {theirs, outer_plus(0)}, Buffer::kInput));
    out.steps.back().waits = paced();
    Lane into = inside("local_rs_in", segments());
    into.steps.push_back(accumulate(place_.previous(), {mine, outer_plus(0)}, Buffer::kInput, Buffer::kOutput));
    lanes.push_back(std::move(out));
    lanes.push_back(std::move(into));
    return;
  }
  std::uint32_t longest = 1;
  for (const Lane& lane : between_) longest = std::max(longest, lane.outer);
  std::vector<Lane> receiving;
  out.outer = c_.instances;
  for (std::uint32_t instance = 0; instance < c_.instances; ++instance) {
    Lane into = inside("local_rs_in", longest);
    for (std::uint32_t s = 0; s < segments(); ++s) {
      const Index segment = fixed(instance * segments() + s);
      out.steps.push_back(
          during(instance, instance + 1, send(place_.next(), {theirs, segment}, Buffer::kInput, instance)));
      into.steps.push_back(
          during(0, 1, accumulate(place_.previous(), {mine, segment}, Buffer::kInput, Buffer::kOutput, instance)));
    }
    receiving.push_back(std::move(into));
  }
  lanes.push_back(std::move(out));
  std::move(receiving.begin(), receiving.end(), std::back_inserter(lanes));
}

// For a step of the gather lane: until every lane between servers has written what it writes. Lanes run in order, so
// the last writing step of each stands for all of them.
std::vector<Wait> Lifting::written(std::uint32_t instance) const {
  std::vector<Wait> waits;
  for (std::uint32_t l = 0; l < between_.size(); ++l) {
    const Lane& lane = between_[l];
    std::optional<Wait> last;
    for (std::uint32_t s = 0; s < lane.steps.size(); ++s) {
      const Step& step = lane.steps[s];
      if (step.destination.buffer != Buffer::kOutput) continue;
      const auto end = static_cast<std::int32_t>(lane.outer) - 1 - static_cast<std::int32_t>(instance);
      const std::int32_t offset = c_.by_segment ? -*behind_outer(step.segment) : end;
      const auto number = instance * static_cast<std::uint32_t>(between_.size()) + l;
      if (!last || offset >= last->outer_offset) last = Wait{.lane = number, .step = s, .outer_offset = offset};
    }
    if (last) waits.push_back(*last);
  }
  if (waits.empty()) waits.push_back({.lane = reduce_in(instance)});  // one server
  return waits;
}

void Lifting::add_gather(std::vector<Lane>& lanes) const {
  const Index mine = shard(fixed(place_.gpu));
  const Index theirs = shard(rotate(std::int64_t{place_.gpu} - 1, -1, c_.gpus));
  const std::uint32_t channel = c_.instances;  // after those of the reduce-scatter
  const std::uint32_t parts = c_.by_segment ? 1 : c_.instances;
  Lane out = inside("local_ag_out", c_.by_segment ? segments() : parts);
  Lane into = inside("local_ag_in", out.outer);
  for (std::uint32_t part = 0; part < parts; ++part) {
    const std::vector<Wait> waits = written(part);
    for (std::uint32_t s = 0; s < (c_.by_segment ? 1 : segments()); ++s) {
      const Index segment = c_.by_segment ? outer_plus(0) : fixed(part * segments() + s);
      Step sending = send(place_.next(), {mine, segment}, Buffer::kOutput, channel);
      Step receiving = recv(place_.previous(), {theirs, segment}, Buffer::kOutput, channel);
      sending.waits = waits;
      out.steps.push_back(c_.by_segment ? sending : during(part, part + 1, sending));
      into.steps.push_back(c_.by_segment ? receiving : during(part, part + 1, receiving));
    }
  }
  lanes.push_back(std::move(out));
  lanes.push_back(std::move(into));
}

std::vector<Lane> Lifting::lanes() const {
  std::vector<Lane> lanes;
  for (std::uint32_t instance = 0; instance < c_.instances; ++instance) {
    for (const Lane& lane : between_) {
      Lane& copy = lanes.emplace_back(lane);
      for (Step& step : copy.steps) step = lift(std::move(step), lane, instance);
    }
  }
  add_reduce(lanes);
  add_gather(lanes);
  return lanes;
}

// The stages overlap, except for one part of the data, which passes them one after the other.
double composed_s(const Plan& between, const Cluster& cluster, double bytes, std::uint32_t parts) {
  const double local_s = intra_time_s(cluster, bytes);
  return std::max(between.predicted_s, local_s) + std::min(between.predicted_s, local_s) / parts +
         2 * cluster.intra_alpha_s;
}

// How far ahead the reduce-scatter inside a server may be. Latency does not get shorter with segments, so short
// segments need more of them.
std::int32_t pace_for(double segment_s, const Cluster& cluster) {
  const double under_way_s = 2 * (cluster.alpha_s + cluster.intra_alpha_s);
  return static_cast<std::int32_t>(std::min(kPace + std::floor(under_way_s / segment_s), kMostPace));
}

std::uint32_t instances_for(const Plan& between, const Cluster& cluster, std::uint64_t bytes) {
  const Layout& layout = between.header.layout;
  const std::uint64_t messages = std::uint64_t{cluster.gpus} * layout.pieces() * layout.segments;
  const std::uint64_t lanes = std::max<std::size_t>(between.lanes(0).size(), 1);
  std::uint32_t instances = 1;
  while (instances < kMostInstances && lanes * instances * 2 <= kMostLanes &&
         bytes / (messages * instances * 2) >= cluster.min_message) {
    instances *= 2;
  }
  return instances;
}

// A GPU whose NIC is lost moves what its NIC would have moved over the fabric as well: that alone takes longer than the
// network does.
bool fabric_decides(const Cluster& cluster) {
  const double g = cluster.gpus;
  const double q = cluster.servers;
  const double volume = 2 * (g - 1) / g + 2 * (q - 1) / q / g;
  bool any_lost = false;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    for (std::uint32_t gpu = 0; gpu < cluster.gpus; ++gpu) any_lost |= cluster.nic(server, cluster.home_nic(gpu)) <= 0;
  }
  return any_lost && volume / cluster.intra_rate > owners_of(cluster)->ideal;
}

// One server has nobody to talk to.
Plan nothing_between(const Request& request, const Cluster& cluster) {
  Plan plan;
  plan.header = header_for(request, cluster, "hierarchical");
  plan.header.layout = Layout::equal(1);
  plan.lanes = [](std::uint32_t) { return std::vector<Lane>{}; };
  return plan;
}

}  // namespace

Result<Plan> hierarchical(const Request& request, const Cluster& cluster, const Tuning& tuning, PlanFunction between) {
  if (cluster.gpus == 1) return between(request, cluster, tuning);
  Cluster servers = cluster;
  servers.gpus = 1;
  // Each message becomes one per GPU.
  servers.min_message *= cluster.gpus;
  servers.port_cost_s *= cluster.gpus;
  Tuning looser = tuning;
  looser.turn_s += 2 * cluster.intra_alpha_s;
  Result<Plan> best = servers.servers == 1 ? nothing_between(request, servers) : between(request, servers, looser);
  if (!best) return best;

  const auto bytes = static_cast<double>(request.bytes);
  auto composition = std::make_shared<Composition>();
  composition->gpus = cluster.gpus;
  composition->by_segment = goes_by_segment(*best);
  if (!composition->by_segment) composition->instances = instances_for(*best, cluster, request.bytes);
  const auto parts = [&](const Plan& plan) {
    return composition->by_segment ? plan.header.layout.segments : composition->instances;
  };
  double predicted_s = composed_s(*best, cluster, bytes, parts(*best));

  // The algorithm does not know of the stages inside the server, which ask for more segments.
  const bool refine = composition->by_segment && !tuning.segments && cluster.servers > 1;
  Tuning finer = looser;
  const std::uint32_t most = cluster.servers <= kFewServers ? kMostSegmentsOfFew : kMostSegments;
  for (std::uint32_t k = more_segments(best->header.layout.segments); refine && k <= most; k = more_segments(k)) {
    if (request.bytes / (std::uint64_t{cluster.servers} * k) < servers.min_message) break;
    finer.segments = k;
    Result<Plan> next = between(request, servers, finer);
    if (!next || !goes_by_segment(*next)) break;
    const double next_s = composed_s(*next, cluster, bytes, parts(*next));
    if (next_s >= predicted_s) continue;
    predicted_s = next_s;
    best = std::move(next);
  }
  composition->between = std::move(*best);
  composition->pace = pace_for(predicted_s / composition->between.header.layout.segments, cluster);
  if (between == plan_weighted_direct && cluster.fabric == Fabric::kRouted && fabric_decides(cluster)) {
    // The pieces of weighted_direct are owners.
    composition->weights = shard_owners(cluster, owners_of(cluster)->rho);
  }

  Plan plan;
  plan.header = composition->between.header;
  plan.header.ranks = cluster.ranks();
  plan.header.ranks_per_server = cluster.gpus;
  plan.header.root = request.root;
  plan.header.scratch_slots *= composition->instances;
  plan.header.layout = lifted_layout(*composition);
  plan.predicted_s = predicted_s;
  plan.lanes = [composition](std::uint32_t rank) { return Lifting(*composition, rank).lanes(); };
  return plan;
}

}  // namespace r2ccl
