// broadcast backwards. Large data: in each server every GPU adds up its shard, each server's part of the sums goes to
// the server that relays it, which adds all and sends the result to the root's server; there the root's neighbours add
// theirs, and the root its own. Small data goes up a tree. Sums on their way are in scratch: only the root has an
// output.

#include <algorithm>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/relays.h"
#include "planner/algorithm/parts/steps.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kFarChannel = 0;
constexpr std::uint32_t kRootChannel = 4;

constexpr std::array<const char*, 2> kSumName{"sum_after", "sum_before"};
constexpr std::array<const char*, 2> kInName{"in_after", "in_before"};

// Scratch: one slot for each lane that sums what it sends on; then the sums of the own part, which stay for `kept`
// segments.
constexpr std::uint32_t kPassingSlots = 2;

const Index kSegment = outer_plus(0);

// Steps that add the own input and what `others` of the server give, into `between`.
std::vector<Step> add_neighbours(std::uint32_t server, const std::vector<std::uint32_t>& others, const Where& where,
                                 const Operand& between, std::uint32_t channel, const Relays& relays) {
  std::vector<Step> steps;
  for (std::size_t i = 0; i < others.size(); ++i) {
    Step step = recv_reduce(relays.rank(server, others[i]), where, Buffer::kInput, Buffer::kNone, channel);
    if (i > 0) step.source = between;
    step.destination = between;
    steps.push_back(std::move(step));
  }
  return steps;
}

// The last step of a sum sends it on instead of keeping it.
void send_on(std::vector<Step>& steps, const Index& to, std::uint32_t channel) {
  steps.back().destination = in(Buffer::kNone);
  steps.back() = and_send(steps.back(), to, channel);
}

std::vector<Lane> root_lanes(const Relays& relays, std::uint32_t gpus, std::uint32_t segments) {
  const Relays::Run run = relays.all();
  Lane root{.name = "root", .outer = segments, .inner = run.count, .steps = {}};
  for (const std::uint32_t gpu : relays.other_sharers(relays.root_gpu())) {
    root.steps.push_back(recv_reduce(relays.rank(relays.root_server(), gpu), {relays.piece(run.server, gpu), kSegment},
                                     Buffer::kInput, Buffer::kOutput, kRootChannel));
  }
  if (gpus == 1) {
    root.steps = {recv_reduce(relays.rank(run.server, 0), {relays.piece(run.server, 0), kSegment}, Buffer::kInput,
                              Buffer::kOutput, kRootChannel)};
  }
  return {std::move(root)};
}

// The lanes of a GPU in the root's server: it adds its neighbours' data and its own to what the relays send, and gives
// the sum to the root.
std::vector<Lane> front_lanes(const RankPlace& me, const Relays& relays, std::uint32_t servers,
                              std::uint32_t segments) {
  const Relays::Run run = relays.all();
  const std::vector<std::uint32_t> others = relays.other_sharers(me.gpu);
  const Where where{relays.piece(run.server, me.gpu), kSegment};
  Lane front{.name = "front", .outer = segments, .inner = run.count, .steps = {}};
  front.steps = add_neighbours(me.server, others, where, scratch(0), kNearChannel[0], relays);
  if (servers > 1) {
    const Step last = recv_reduce(relays.rank(run.server, me.gpu), where, Buffer::kInput, Buffer::kNone, kRootChannel);
    front.steps.push_back(others.empty() ? last : with_source(scratch(0), last));
  }
  if (front.steps.empty()) {
    front.steps = {send(fixed(relays.root_rank()), where, Buffer::kInput, kRootChannel)};
  } else {
    send_on(front.steps, fixed(relays.root_rank()), kRootChannel);
  }
  std::vector<Lane> lanes{std::move(front)};
  add_near_lanes(lanes, me, relays, segments, false);
  return lanes;
}

// The lanes that add up the shard inside the server. The own part is kept, the others' parts go to their relays.
void add_sum_lanes(std::vector<Lane>& lanes, const RankPlace& me, const Relays& relays, std::uint32_t segments,
                   const Operand& kept) {
  const std::vector<std::uint32_t> neighbours = relays.neighbours(me.gpu);
  const std::array<Relays::Run, 2> runs = relays.others(me.server);
  const Where own{relays.piece(me.server, me.gpu), kSegment};
  Lane sum{.name = "sum_own", .outer = segments, .steps = {}};
  sum.steps = add_neighbours(me.server, neighbours, own, kept, kOwnPartChannel, relays);
  if (neighbours.empty()) sum.steps = {with_destination(kept, copy(own, Buffer::kInput, Buffer::kScratch))};
  lanes.push_back(std::move(sum));
  for (std::uint32_t way = 0; way < runs.size(); ++way) {
    if (runs[way].count == 0) continue;
    const Index peer = relays.rank(runs[way].server, me.gpu);
    const Where where{relays.piece(runs[way].server, me.gpu), kSegment};
    Lane pass{.name = kSumName[way], .outer = segments, .inner = runs[way].count, .steps = {}};
    pass.steps = add_neighbours(me.server, neighbours, where, scratch(way), kNearChannel[way], relays);
    if (neighbours.empty()) {
      pass.steps = {send(peer, where, Buffer::kInput, kFarChannel)};
    } else {
      send_on(pass.steps, peer, kFarChannel);
    }
    lanes.push_back(std::move(pass));
  }
}

// Adds the other servers' sums of the own part to the kept one and sends the result to the root's server. The runs take
// turns, so the order of additions is fixed.
void add_part_lanes(std::vector<Lane>& lanes, const RankPlace& me, const Relays& relays, std::uint32_t segments,
                    const Operand& kept, std::uint32_t depth) {
  const std::array<Relays::Run, 2> runs = relays.others(me.server);
  const Where own{relays.piece(me.server, me.gpu), kSegment};
  const std::uint32_t to_gpu = me.gpu;
  std::uint32_t before = 0;  // the lane, of one segment's additions, that comes before
  std::uint32_t before_step = static_cast<std::uint32_t>(lanes[0].steps.size()) - 1;
  for (std::size_t way = 0; way < runs.size(); ++way) {
    if (runs[way].count == 0) continue;
    Lane into{.name = kInName[way], .outer = segments, .inner = runs[way].count, .steps = {}};
    Step add = recv_reduce(relays.rank(runs[way].server, me.gpu), own, Buffer::kScratch, Buffer::kScratch, kFarChannel);
    add = with_source(kept, with_destination(kept, std::move(add)));
    into.steps = {after({.lane = before, .step = before_step}, std::move(add))};
    before = static_cast<std::uint32_t>(lanes.size());
    before_step = 0;
    lanes.push_back(std::move(into));
  }
  Lane result{.name = "result", .outer = segments, .steps = {}};
  result.steps = {
      after({.lane = before, .step = before_step},
            with_source(kept, send(relays.rank(relays.root_server(), to_gpu), own, Buffer::kScratch, kRootChannel)))};
  const auto last = static_cast<std::uint32_t>(lanes.size());
  lanes.push_back(std::move(result));
  lanes[0].steps[0].waits.push_back({.lane = last, .step = 0, .outer_offset = -static_cast<std::int32_t>(depth)});
}

std::vector<Lane> lanes_of(std::uint32_t rank, const Relays& relays, const Cluster& cluster, std::uint32_t segments,
                           std::uint32_t depth) {
  const RankPlace me = relays.place(rank);
  if (rank == relays.root_rank()) return root_lanes(relays, cluster.gpus, segments);
  if (relays.in_root_server(rank)) return front_lanes(me, relays, cluster.servers, segments);
  const Operand kept{Buffer::kScratch, {.by_outer = 1, .modulo = depth, .offset = kPassingSlots}};
  std::vector<Lane> lanes;
  if (relays.has_shard(me.gpu)) {
    add_sum_lanes(lanes, me, relays, segments, kept);
    add_part_lanes(lanes, me, relays, segments, kept, depth);
  }
  if (cluster.gpus > 1) add_near_lanes(lanes, me, relays, segments, false);
  return lanes;
}

}  // namespace

Result<Plan> plan_reduce(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  Result<Plan> relayed = plan_relays(request, cluster, tuning, "reduce", false);
  Result<Plan> tree = plan_one_tree(request, cluster, tuning, "reduce", false);
  if (!relayed || (tree && tree->predicted_s <= relayed->predicted_s)) return tree;
  const std::uint32_t segments = relayed->header.layout.segments;
  const std::uint32_t depth = std::min(segments, relayed->header.slots + 1);
  relayed->header.scratch_slots = kPassingSlots + depth;
  relayed->lanes = [relays = Relays(cluster, request.root), cluster, segments, depth](std::uint32_t rank) {
    return lanes_of(rank, relays, cluster, segments, depth);
  };
  return relayed;
}

}  // namespace r2ccl
