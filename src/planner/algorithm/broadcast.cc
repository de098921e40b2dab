// Large data goes out by relays (relays.h): the root's server gives each other server its part, which that one sends to
// all the rest, while inside each server every GPU passes its shard on. Small data goes down a tree.

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/relays.h"
#include "planner/algorithm/parts/steps.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kFarChannel = 0;
constexpr std::uint32_t kDealChannel = kOwnPartChannel;  // from the root; its server has no part of its own

constexpr std::uint32_t kTakeLane = 0;
constexpr std::array<const char*, 2> kRelayName{"relay_after", "relay_before"};
constexpr std::array<const char*, 2> kInName{"in_after", "in_before"};

const Index kSegment = outer_plus(0);

// Adds steps that receive, pass on to the first of `to`, and then send to the others of it from the output.
void take_and_pass(Lane& lane, const Step& take, std::uint32_t server, const std::vector<std::uint32_t>& to,
                   std::uint32_t channel, const Relays& relays) {
  lane.steps.push_back(to.empty() ? take : and_send(take, relays.rank(server, to[0]), channel));
  for (std::size_t i = 1; i < to.size(); ++i) {
    lane.steps.push_back(send(relays.rank(server, to[i]), {take.span, take.segment}, Buffer::kOutput, channel));
  }
}

std::vector<Lane> root_lanes(const Relays& relays, std::uint32_t gpus, std::uint32_t segments) {
  Lane own{.name = "own", .outer = segments, .steps = {}};
  own.steps = {copy({fixed(relays.everything()), kSegment}, Buffer::kInput, Buffer::kOutput)};
  const Relays::Run run = relays.all();
  Lane deal{.name = "deal", .outer = segments, .inner = run.count, .steps = {}};
  for (const std::uint32_t gpu : relays.other_sharers(relays.root_gpu())) {
    deal.steps.push_back(send(relays.rank(relays.root_server(), gpu), {relays.piece(run.server, gpu), kSegment},
                              Buffer::kInput, kDealChannel));
  }
  if (gpus == 1) {
    deal.steps = {
        send(relays.rank(run.server, 0), {relays.piece(run.server, 0), kSegment}, Buffer::kInput, kFarChannel)};
  }
  return {std::move(own), std::move(deal)};
}

// The lanes of a GPU in the root's server: it takes its shard from the root and passes each part to the server that
// relays it, and to the other GPUs beside the root.
std::vector<Lane> front_lanes(const RankPlace& me, const Relays& relays, std::uint32_t servers,
                              std::uint32_t segments) {
  const Relays::Run run = relays.all();
  Lane front{.name = "front", .outer = segments, .inner = run.count, .steps = {}};
  const Where where{relays.piece(run.server, me.gpu), kSegment};
  const Step take = recv(fixed(relays.root_rank()), where, Buffer::kOutput, kDealChannel);
  front.steps = {servers > 1 ? and_send(take, relays.rank(run.server, me.gpu), kFarChannel) : take};
  for (const std::uint32_t other : relays.other_sharers(me.gpu)) {
    front.steps.push_back(send(relays.rank(me.server, other), where, Buffer::kOutput, kNearChannel[0]));
  }
  std::vector<Lane> lanes{std::move(front)};
  add_near_lanes(lanes, me, relays, segments, true);
  return lanes;
}

// The lanes of a GPU that relays: it takes its part of its shard and passes it to all other relays and to its own
// server; it takes the others' parts too, and passes them to its own server.
void add_relay_lanes(std::vector<Lane>& lanes, const RankPlace& me, const Relays& relays, std::uint32_t segments) {
  const std::vector<std::uint32_t> neighbours = relays.neighbours(me.gpu);
  const std::array<Relays::Run, 2> runs = relays.others(me.server);
  const Where own{relays.piece(me.server, me.gpu), kSegment};
  const Wait taken{.lane = kTakeLane, .step = 0};
  Lane take{.name = "take", .outer = segments, .steps = {}};
  take_and_pass(take, recv(relays.rank(relays.root_server(), me.gpu), own, Buffer::kOutput, kFarChannel), me.server,
                neighbours, kOwnPartChannel, relays);
  lanes.push_back(std::move(take));
  for (std::size_t way = 0; way < runs.size(); ++way) {
    if (runs[way].count == 0) continue;
    const Index peer = relays.rank(runs[way].server, me.gpu);
    Lane relay{.name = kRelayName[way], .outer = segments, .inner = runs[way].count, .steps = {}};
    relay.steps = {after(taken, send(peer, own, Buffer::kOutput, kFarChannel))};
    Lane into{.name = kInName[way], .outer = segments, .inner = runs[way].count, .steps = {}};
    take_and_pass(into, recv(peer, {relays.piece(runs[way].server, me.gpu), kSegment}, Buffer::kOutput, kFarChannel),
                  me.server, neighbours, kNearChannel[way], relays);
    lanes.push_back(std::move(relay));
    lanes.push_back(std::move(into));
  }
}

std::vector<Lane> lanes_of(std::uint32_t rank, const Relays& relays, const Cluster& cluster, std::uint32_t segments) {
  const RankPlace me = relays.place(rank);
  if (rank == relays.root_rank()) return root_lanes(relays, cluster.gpus, segments);
  if (relays.in_root_server(rank)) return front_lanes(me, relays, cluster.servers, segments);
  std::vector<Lane> lanes;
  if (relays.has_shard(me.gpu)) add_relay_lanes(lanes, me, relays, segments);
  if (cluster.gpus > 1) add_near_lanes(lanes, me, relays, segments, true);
  return lanes;
}

}  // namespace

Result<Plan> plan_broadcast(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  Result<Plan> relayed = plan_relays(request, cluster, tuning, "broadcast", true);
  Result<Plan> tree = plan_one_tree(request, cluster, tuning, "broadcast", true);
  if (!relayed || (tree && tree->predicted_s <= relayed->predicted_s)) return tree;
  relayed->lanes = [relays = Relays(cluster, request.root), cluster, segments = relayed->header.layout.segments](
                       std::uint32_t rank) { return lanes_of(rank, relays, cluster, segments); };
  return relayed;
}

}  // namespace r2ccl
