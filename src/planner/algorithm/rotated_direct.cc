// weighted_direct for many servers with several GPUs each. Sharding every message over the g GPUs would make it g times
// smaller; here each message stays whole and the GPU that carries it rotates. Servers fall into g classes, v mod g. In
// round (segment) r the GPU i of server u carries the traffic of u with class (i - u - r) mod g, in both directions and
// in both halves. One round:
//
//   local_rs   each GPU collects its class of the server's sum from its neighbours
//   net rs     it sends each leaf (the piece of one owner) to the same GPU of the owner; there every GPU adds what
//              arrives on it
//   own        the partial sums of the server's own leaf meet on the home GPU, the one that carries the server's own
//              class, and the result goes to all GPUs of the server
//   net ag     each GPU sends the result to its class and receives the leaves of its class, `lag` rounds behind net rs
//   local_ag   it passes its class on to its neighbours, without the own leaf, which they have
//
// Messages between servers are n / (q K). Pieces are ordered by class, so a class moves inside the server as one
// message.

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/intra.h"
#include "planner/algorithm/parts/steps.h"
#include "planner/owners.h"
#include "planner/pipeline.h"

namespace r2ccl {
namespace {

enum LaneNumber : std::uint32_t {
  kNetOut,
  kNetIn,
  kLocalReduceOut,
  kLocalReduceIn,
  kOwnOut,
  kOwnIn,
  kLocalGatherOut,
  kLocalGatherIn
};
// Rounds that the reduce-scatter inside a server may be ahead of the exchange between servers.
constexpr std::int32_t kPace = 4;
// Rounds between the halves of the exchange at least: GPUs with large and with small classes even out.
constexpr std::uint32_t kLeastLag = 5;
// Classes of different sizes cost this many rounds, times the square of their number over that of the servers: as
// measured.
constexpr double kUneven = 6;
constexpr std::uint64_t kManySegments = 64;  // with fewer, shards are too small for weighted_direct
// With less than two servers a class, some GPUs carry nothing in a round and others all: 25 to 36 % were measured.
constexpr double kFewServers = 1.3;
// Channels between servers, and inside.
enum NetChannel : std::uint32_t { kNetReduce, kNetGather };
enum LocalChannel : std::uint32_t { kClassSum, kPartial, kResult, kClassResult };

// Servers in classes, and the numbers of their pieces and spans in the layout.
struct Classes {
  std::uint32_t servers = 0;
  std::uint32_t gpus = 0;

  std::uint32_t size(std::uint32_t c) const { return (servers - c + gpus - 1) / gpus; }
  std::uint32_t first_piece(std::uint32_t c) const {
    const std::uint32_t larger = std::min(c, servers % gpus);
    return c * (servers / gpus) + larger;
  }
  std::uint32_t piece(std::uint32_t server) const { return first_piece(server % gpus) + server / gpus; }
  // Members below `server`: where its rotation through the class starts.
  std::uint32_t below(std::uint32_t c, std::uint32_t server) const {
    return server <= c ? 0 : (server - c + gpus - 1) / gpus;
  }

  // Members of its own class above `server`.
  std::uint32_t behind(std::uint32_t server) const { return size(server % gpus) - server / gpus - 1; }

  std::uint32_t empty_piece() const { return servers; }  // stands for spans without members
  std::uint32_t pieces() const { return servers + 1; }
  std::uint32_t class_span(std::uint32_t c) const { return pieces() + c; }
  // Class c without the leaf of `server`: for its own class the members before it, and those behind it in rest_span.
  std::uint32_t others_span(std::uint32_t server, std::uint32_t c) const { return pieces() + gpus + server * gpus + c; }
  std::uint32_t rest_span(std::uint32_t server) const { return pieces() + gpus + servers * gpus + server; }
};

Layout layout_of(const Classes& of, const std::vector<double>& rho, std::uint32_t segments) {
  R2CCL_ASSERT(of.gpus > 0, "there are classes");
  const Classes classes = of;
  std::vector<double> weights(classes.pieces(), 0.0);
  for (std::uint32_t server = 0; server < classes.servers; ++server) weights[classes.piece(server)] = rho[server];
  Layout layout;
  layout.bounds = piece_bounds(weights);
  layout.segments = segments;
  const auto run = [empty = classes.empty_piece()](std::uint32_t first, std::uint32_t count) {
    return count == 0 ? Span{empty, 1} : Span{first, count};
  };
  for (std::uint32_t c = 0; c < classes.gpus; ++c) layout.spans.push_back(run(classes.first_piece(c), classes.size(c)));
  for (std::uint32_t server = 0; server < classes.servers; ++server) {
    for (std::uint32_t c = 0; c < classes.gpus; ++c) {
      const bool own = c == server % classes.gpus;
      layout.spans.push_back(run(classes.first_piece(c), own ? server / classes.gpus : classes.size(c)));
    }
  }
  for (std::uint32_t server = 0; server < classes.servers; ++server) {
    layout.spans.push_back(run(classes.piece(server) + 1, classes.behind(server)));
  }
  return layout;
}

// The lanes of one rank.
class Rotation {
 public:
  Rotation(const Classes& classes, const Pipeline& pipeline, std::uint32_t rank)
      : classes_(classes),
        k_(pipeline.segments),
        lag_(pipeline.lag),
        place_{rank / classes.gpus, rank % classes.gpus, classes.gpus} {
    shortest_ = classes_.servers;
    for (std::uint32_t c = 0; c < classes_.gpus; ++c) shortest_ = std::min(shortest_, members(c));
  }

  std::vector<Lane> lanes() const;

 private:
  // Of a class, besides this server.
  std::uint32_t members(std::uint32_t c) const { return classes_.size(c) - (c == own_class() ? 1 : 0); }
  std::uint32_t own_class() const { return place_.server % classes_.gpus; }
  Index own_leaf() const { return fixed(classes_.piece(place_.server)); }
  // Position in class c of the member that comes `skip` after (before) this server, and on with the inner loop.
  Index forward(std::uint32_t c, std::uint32_t skip) const;
  Index backward(std::uint32_t c, std::uint32_t skip) const;
  Index rank_at(Index position, std::uint32_t c) const;
  Index leaf_at(Index position, std::uint32_t c) const;

  // The class this GPU carries in the round `outer - behind` is c.
  Guard carries(std::uint32_t c, std::uint32_t behind) const;
  // The GPU with index `gpu` of this server (linear in the inner loop) is the home of the own leaf.
  Guard is_home(std::int64_t base, std::int32_t by_inner) const;
  // Span number of the class that such a GPU carries, from a table of one span per class.
  Index class_of(std::int64_t base, std::int32_t by_inner, std::uint32_t table) const;

  template <class MakeStep>
  void add_classes(Lane& lane, std::uint32_t behind, bool loop, MakeStep make) const;
  // Both halves, as steps for add_classes.
  template <class MakeReduce, class MakeGather>
  Lane net_lane(const char* name, MakeReduce reduce, MakeGather gather) const;
  Lane net_out() const;
  Lane net_in() const;
  Lane inside(const char* name) const { return {.name = name, .outer = k_, .inner = classes_.gpus - 1, .steps = {}}; }
  void add_local_reduce(std::vector<Lane>& lanes) const;
  void add_own(std::vector<Lane>& lanes) const;
  void add_local_gather(std::vector<Lane>& lanes) const;
  // Steps per half and class in the net lanes before the inner loop.
  std::uint32_t extras() const;
  // The last step of the first (second) half in a net lane: it is passed when the half is done in that round.
  Wait net_done(LaneNumber lane, bool gather) const;

  const Classes& classes_;
  std::uint32_t k_;
  std::uint32_t lag_;
  LocalPlace place_;
  std::uint32_t shortest_ = 0;  // members of the smallest class: what the inner loop of the net lanes covers of each
};

Index Rotation::forward(std::uint32_t c, std::uint32_t skip) const {
  const std::uint32_t start = classes_.below(c, place_.server + 1) + skip;
  return rotate(start, 1, classes_.size(c));
}

Index Rotation::backward(std::uint32_t c, std::uint32_t skip) const {
  const std::int64_t start = std::int64_t{classes_.below(c, place_.server)} - 1 - skip;
  return rotate(start, -1, classes_.size(c));
}

// Member j of class c is server j * g + c, and this GPU's counterpart there is the same GPU.
Index Rotation::rank_at(Index position, std::uint32_t c) const {
  const std::uint32_t g = classes_.gpus;
  position.scale = static_cast<std::int32_t>(g * g);
  position.offset = static_cast<std::int32_t>(c * g + place_.gpu);
  return position;
}

Index Rotation::leaf_at(Index position, std::uint32_t c) const {
  position.offset = static_cast<std::int32_t>(classes_.first_piece(c));
  return position;
}

Guard Rotation::carries(std::uint32_t c, std::uint32_t behind) const {
  const std::int64_t base = std::int64_t{place_.gpu} - place_.server + behind;
  return {.value = {.base = static_cast<std::int32_t>(base), .by_outer = -1, .modulo = classes_.gpus}, .equals = c};
}

Guard Rotation::is_home(std::int64_t base, std::int32_t by_inner) const {
  const std::int64_t distance = base - 2 * std::int64_t{place_.server};
  return {.value = {.base = static_cast<std::int32_t>(distance),
                    .by_outer = -1,
                    .by_inner = by_inner,
                    .modulo = classes_.gpus},
          .equals = 0};
}

Index Rotation::class_of(std::int64_t base, std::int32_t by_inner, std::uint32_t table) const {
  return {.base = static_cast<std::int32_t>(base - place_.server),
          .by_outer = -1,
          .by_inner = by_inner,
          .modulo = classes_.gpus,
          .offset = static_cast<std::int32_t>(table)};
}

// Classes differ in size by one or two members (the own one lacks this server). The inner loop covers as many as all
// have; what is more stands before it, one step each. `make(c, skip, first)` makes the step for the member `skip`
// places on, or for the loop.
template <class MakeStep>
void Rotation::add_classes(Lane& lane, std::uint32_t behind, bool loop, MakeStep make) const {
  for (std::uint32_t c = 0; c < classes_.gpus; ++c) {
    const std::uint32_t before = members(c) - shortest_;
    const std::uint32_t begin = loop ? before : 0;
    const std::uint32_t end = loop ? before + std::min(shortest_, 1U) : before;
    for (std::uint32_t skip = begin; skip < end; ++skip) {
      Step step = during(behind, k_ + behind, make(c, skip));
      step.guards.push_back(carries(c, behind));
      lane.steps.push_back(std::move(step));
    }
  }
}

std::uint32_t Rotation::extras() const {
  std::uint32_t count = 0;
  for (std::uint32_t c = 0; c < classes_.gpus; ++c) count += members(c) - shortest_;
  return count;
}

Wait Rotation::net_done(LaneNumber lane, bool gather) const {
  const std::uint32_t halves = gather ? 2 : 1;
  const std::uint32_t steps = shortest_ > 0 ? 2 * extras() + halves * classes_.gpus : halves * extras();
  return {.lane = lane, .step = steps - 1, .outer_offset = gather ? static_cast<std::int32_t>(lag_) : 0};
}

template <class MakeReduce, class MakeGather>
Lane Rotation::net_lane(const char* name, MakeReduce reduce, MakeGather gather) const {
  Lane lane{.name = name, .outer = k_ + lag_, .inner = std::max(shortest_, 1U), .steps = {}};
  add_classes(lane, 0, false, reduce);
  add_classes(lane, lag_, false, gather);
  lane.inner_begin = static_cast<std::uint32_t>(lane.steps.size());
  add_classes(lane, 0, true, reduce);
  add_classes(lane, lag_, true, gather);
  return lane;
}

Lane Rotation::net_out() const {
  const Index now = outer_plus(0);
  const auto behind = -static_cast<std::int32_t>(lag_);
  const auto reduce = [&](std::uint32_t c, std::uint32_t skip) {
    const Index to = forward(c, skip);
    return after({.lane = kLocalReduceIn}, send(rank_at(to, c), {leaf_at(to, c), now}, Buffer::kOutput, kNetReduce));
  };
  // The result is here when it was summed (home) or received (others).
  const auto gather = [&](std::uint32_t c, std::uint32_t skip) {
    Step step = send(rank_at(forward(c, skip), c), {own_leaf(), outer_plus(behind)}, Buffer::kOutput, kNetGather);
    return after({.lane = kOwnIn, .step = 1, .outer_offset = behind}, std::move(step));
  };
  return net_lane("net_out", reduce, gather);
}

Lane Rotation::net_in() const {
  const Index now = outer_plus(0);
  const auto behind = -static_cast<std::int32_t>(lag_);
  // The home GPU starts from the server's own sum, which is in its output; others have nothing of the own leaf but, in
  // place, their input, which must have left.
  const auto reduce = [&](std::uint32_t c, std::uint32_t skip) {
    Step step =
        recv_reduce(rank_at(backward(c, skip), c), {own_leaf(), now}, Buffer::kOutput, Buffer::kOutput, kNetReduce);
    if (c != own_class()) {
      const bool loop = skip == members(c) - shortest_;
      if (loop && skip == 0) step.has_first = true;
      if (!loop && skip == 0) step.source = {};
    }
    step.waits = {{.lane = kLocalReduceIn}, {.lane = kLocalReduceOut}};
    return step;
  };
  const auto gather = [&](std::uint32_t c, std::uint32_t skip) {
    const Index from = backward(c, skip);
    return after({.lane = kLocalReduceIn, .outer_offset = behind},
                 recv(rank_at(from, c), {leaf_at(from, c), outer_plus(behind)}, Buffer::kOutput, kNetGather));
  };
  return net_lane("net_in", reduce, gather);
}

void Rotation::add_local_reduce(std::vector<Lane>& lanes) const {
  const Index theirs = class_of(place_.gpu + 1, 1, classes_.class_span(0));
  const Index mine = class_of(place_.gpu, 0, classes_.class_span(0));
  Lane out = inside("local_rs_out");
  // Close to the exchange between servers: it would run ahead at the fabric's full speed and the rest would queue
  // behind it.
  Wait paced = net_done(kNetIn, false);
  paced.outer_offset -= kPace;
  out.steps.push_back(after(paced, send(place_.next(), {theirs, outer_plus(0)}, Buffer::kInput, kClassSum)));
  Lane into = inside("local_rs_in");
  into.steps.push_back(
      accumulate(place_.previous(), {mine, outer_plus(0)}, Buffer::kInput, Buffer::kOutput, kClassSum));
  lanes.push_back(std::move(out));
  lanes.push_back(std::move(into));
}

// Partial sums to the home GPU, the result from it. Each GPU looks for the home among its peers, which it finds unless
// it is the home.
void Rotation::add_own(std::vector<Lane>& lanes) const {
  const Where where{own_leaf(), outer_plus(0)};
  const Guard home = is_home(place_.gpu, 0);
  const Guard to_home = is_home(place_.gpu + 1, 1);
  const Guard from_home = is_home(std::int64_t{place_.gpu} - 1, -1);
  const auto guarded = [](const Guard& guard, Step step) {
    step.guards.push_back(guard);
    return step;
  };
  const Wait added = net_done(kNetIn, false);

  // The home sends when its last partial sum is in; others send once, before that round's result reaches them.
  Lane out = inside("own_out");
  out.steps.push_back(guarded(to_home, after(added, send(place_.next(), where, Buffer::kOutput, kPartial))));
  out.steps.push_back(
      guarded(home, after({.lane = kOwnIn, .step = 0}, send(place_.next(), where, Buffer::kOutput, kResult))));

  Lane into = inside("own_in");
  Step partial = recv_reduce(place_.previous(), where, Buffer::kOutput, Buffer::kOutput, kPartial);
  partial.waits = {added, {.lane = kLocalReduceIn}};
  into.steps.push_back(guarded(home, std::move(partial)));
  // The result takes the place of the partial sum.
  const Wait sent{.lane = kOwnOut, .step = 0};
  into.steps.push_back(guarded(from_home, after(sent, recv(place_.previous(), where, Buffer::kOutput, kResult))));
  lanes.push_back(std::move(out));
  lanes.push_back(std::move(into));
}

void Rotation::add_local_gather(std::vector<Lane>& lanes) const {
  const std::uint32_t table = classes_.others_span(place_.server, 0);
  const Index now = outer_plus(0);
  const Where mine{class_of(place_.gpu, 0, table), now};
  const Where theirs{class_of(std::int64_t{place_.gpu} - 1, -1, table), now};
  const Where rest{fixed(classes_.rest_span(place_.server)), now};
  const Wait received = net_done(kNetIn, true);

  Lane out = inside("local_ag_out");
  out.steps.push_back(after(received, send(place_.next(), mine, Buffer::kOutput, kClassResult)));
  out.steps.push_back(after(received, send(place_.next(), rest, Buffer::kOutput, kClassResult)));
  out.steps.back().guards.push_back(is_home(place_.gpu, 0));
  Lane into = inside("local_ag_in");
  into.steps.push_back(recv(place_.previous(), theirs, Buffer::kOutput, kClassResult));
  into.steps.push_back(recv(place_.previous(), rest, Buffer::kOutput, kClassResult));
  into.steps.back().guards.push_back(is_home(std::int64_t{place_.gpu} - 1, -1));
  lanes.push_back(std::move(out));
  lanes.push_back(std::move(into));
}

std::vector<Lane> Rotation::lanes() const {
  std::vector<Lane> lanes;
  lanes.push_back(net_out());
  lanes.push_back(net_in());
  add_local_reduce(lanes);
  add_own(lanes);
  add_local_gather(lanes);
  return lanes;
}

Pipeline pipeline_for(const Request& request, const Cluster& cluster, const Tuning& tuning, const Owners& owners) {
  const double q = cluster.servers;
  const double bytes = static_cast<double>(request.bytes);
  // The partial sums of the own leaf come on top.
  const double local_s = intra_time_s(cluster, bytes) + bytes / q / cluster.intra_rate;
  const double ideal_s = std::max(owners.ideal * bytes, local_s);
  const double uneven = cluster.servers % cluster.gpus == 0 ? 0 : kUneven * cluster.gpus * cluster.gpus / (q * q);
  const Exchange exchange{.ideal_s = ideal_s,
                          .kappa = owners.kappa,
                          .fill_s = std::min(owners.ideal * bytes, local_s) + uneven * ideal_s,
                          .messages = 2.0 * (q - 1) / cluster.nics,
                          .latency_s = 2 * cluster.alpha_s + 4 * cluster.intra_alpha_s,
                          .message_bytes = request.bytes / cluster.servers,
                          .turn_s = 5 * cluster.alpha_s + 10 * cluster.intra_alpha_s,
                          .least_lag = kLeastLag,
                          .may_be_long = request.bytes / cluster.ranks() < kManySegments * cluster.min_message};
  // Between the two halves of a segment lies the way of the own leaf over the home GPU.
  Cluster slower = cluster;
  slower.alpha_s += 2 * cluster.intra_alpha_s;
  return choose_pipeline(exchange, slower, tuning);
}

}  // namespace

Result<Plan> plan_rotated_direct(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  if (cluster.gpus < 2 || cluster.servers < cluster.gpus) {
    return fail(Fault::kMisuse,
                fmt::format("rotated_direct needs several GPUs per server and at least as many servers; there are {} "
                            "servers with {} GPUs",
                            cluster.servers, cluster.gpus));
  }
  Result<Owners> owners = owners_of(cluster);
  if (!owners) return std::unexpected(owners.error());
  const Pipeline pipeline = pipeline_for(request, cluster, tuning, *owners);
  const Classes classes{cluster.servers, cluster.gpus};

  Plan plan;
  plan.header = header_for(request, cluster, "rotated_direct");
  plan.header.layout = layout_of(classes, owners->rho, pipeline.segments);
  plan.header.slots = pipeline.slots;
  plan.header.shares = std::move(owners->shares);
  plan.predicted_s = pipeline.predicted_s * (cluster.servers < 2 * cluster.gpus ? kFewServers : 1);
  plan.lanes = [classes, pipeline](std::uint32_t rank) { return Rotation(classes, pipeline, rank).lanes(); };
  return plan;
}

}  // namespace r2ccl
