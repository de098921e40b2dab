// Ranks exchange everything they have with the rank at distance 1, 2, 4 …: log2 p hops. With p not a power of two the
// first ranks join in pairs: the even one hands its data to the odd one before and gets the result after.
//
// Both ends of an exchange add the same two values, one as a + b and the other as b + a. That is the same sum bit by
// bit for every type and operation we have, so all ranks end alike. Every exchange adds into memory of its own: what it
// sends may be read by the transport until the end.

#include <algorithm>
#include <bit>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/pair_network.h"
#include "planner/algorithm/parts/steps.h"

namespace r2ccl {
namespace {

const Where kWhole{fixed(0), fixed(0)};

struct Rounds {
  std::uint32_t members = 1;  // that exchange: the largest power of two within the ranks
  std::uint32_t extra = 0;    // ranks that have handed their data to the next one
  std::uint32_t count = 0;    // log2 of members

  explicit Rounds(std::uint32_t ranks)
      : members(std::bit_floor(ranks)),
        extra(ranks - members),
        count(static_cast<std::uint32_t>(std::countr_zero(members))) {}
  bool folded(std::uint32_t rank) const { return rank < 2 * extra && rank % 2 == 0; }
  std::uint32_t member(std::uint32_t rank) const { return rank < 2 * extra ? rank / 2 : rank - extra; }
  std::uint32_t rank(std::uint32_t place) const { return place < extra ? 2 * place + 1 : place + extra; }
  std::uint32_t partner(std::uint32_t me, std::uint32_t round) const { return rank(member(me) ^ (1U << round)); }
};

std::vector<Lane> lanes_of(std::uint32_t me, const Rounds& rounds) {
  Lane lane{.name = "exchange", .steps = {}};
  if (rounds.folded(me)) {
    lane.steps = {send(fixed(me + 1), kWhole, Buffer::kInput), recv(fixed(me + 1), kWhole, Buffer::kOutput)};
    return {std::move(lane)};
  }
  const bool folds = me < 2 * rounds.extra;
  lane.steps.push_back(with_destination(
      scratch(0), folds ? recv_reduce(fixed(std::int64_t{me} - 1), kWhole, Buffer::kInput, Buffer::kScratch)
                        : copy(kWhole, Buffer::kInput, Buffer::kScratch)));
  for (std::uint32_t round = 0; round < rounds.count; ++round) {
    const Index partner = fixed(rounds.partner(me, round));
    const Operand sum = round + 1 < rounds.count ? scratch(round + 1) : in(Buffer::kOutput);
    lane.steps.push_back(with_source(scratch(round), send(partner, kWhole, Buffer::kScratch)));
    lane.steps.push_back(with_destination(
        sum, with_source(scratch(round), recv_reduce(partner, kWhole, Buffer::kScratch, Buffer::kOutput))));
  }
  if (folds) lane.steps.push_back(send(fixed(std::int64_t{me} - 1), kWhole, Buffer::kOutput));
  return {std::move(lane)};
}

// The time of all rounds, which follow each other: in a round each server's bytes go over the NICs it has.
Result<double> predict(double bytes, const Cluster& cluster, const Rounds& rounds) {
  const auto hop = [&](auto&& sends_to) -> Result<double> {
    PairBytes traffic(cluster.servers);
    bool far = false;
    for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) {
      const std::uint32_t to = sends_to(rank);
      const std::uint32_t u = rank / cluster.gpus;
      const std::uint32_t v = to / cluster.gpus;
      if (u == v) continue;
      far = true;
      traffic.at(u, v) += bytes;
    }
    const Result<PairNetwork> network = network_for(traffic, cluster);
    if (!network) return std::unexpected(network.error());
    const double local_s = bytes / cluster.intra_rate;
    return std::max(network->time_s, local_s) + (far ? cluster.messages(1) * cluster.port_cost_s : 0) +
           (far ? cluster.alpha_s : cluster.intra_alpha_s) + cluster.reduce_s(bytes);
  };
  double total_s = 0;
  const auto fold = [&](std::uint32_t rank) { return rounds.folded(rank) ? rank + 1 : rank; };
  for (std::uint32_t round = 0; round < rounds.count; ++round) {
    const Result<double> time_s =
        hop([&](std::uint32_t rank) { return rounds.folded(rank) ? rank : rounds.partner(rank, round); });
    if (!time_s) return time_s;
    total_s += *time_s;
  }
  if (rounds.extra == 0) return total_s;
  const Result<double> fold_s = hop(fold);
  if (!fold_s) return fold_s;
  return total_s + 2 * *fold_s;
}

}  // namespace

Result<Plan> plan_recursive_doubling(const Request& request, const Cluster& cluster, const Tuning&) {
  const Rounds rounds(cluster.ranks());
  const Result<double> predicted_s = predict(static_cast<double>(request.bytes), cluster, rounds);
  if (!predicted_s) return std::unexpected(predicted_s.error());
  // Only pairs that exchange matter; they all have the same volume.
  Result<PairNetwork> network = network_for(all_pairs(cluster.servers, 0), cluster);
  if (!network) return std::unexpected(network.error());

  Plan plan;
  plan.header = header_for(request, cluster, "recursive_doubling");
  plan.header.layout = Layout::equal(1);
  plan.header.scratch_slots = rounds.count;
  plan.header.shares = std::move(network->shares);
  plan.predicted_s = *predicted_s;
  plan.lanes = [rounds](std::uint32_t rank) { return lanes_of(rank, rounds); };
  return plan;
}

}  // namespace r2ccl
