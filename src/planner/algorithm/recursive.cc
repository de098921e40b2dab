// R²CCL-AllReduce for several bandwidth classes: a ring of all servers at the rate of the slowest class, beside it
// rings of the faster servers at the rate that is left, class by class. Then every part is merged with what the servers
// outside its ring have: member c of the ring owns column c of the part, each excluded server sends its column c
// straight to it, and the owner adds them to the ring's sum and sends the result straight to everybody else. So an
// excluded server moves the part once each way, and a member of t little more: (t - 1 + excluded) / t.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "planner/algorithm/algorithm.h"
#include "planner/algorithm/parts/levels.h"
#include "planner/algorithm/parts/steps.h"
#include "planner/algorithm/rings/ring.h"
#include "planner/rerank.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kMostLevels = 4;
constexpr std::size_t kMostClasses = 12;  // nearly equal ones are one, until there are no more than these

// Makes the steps that merge one level's part on one server. Outer iterations are segments.
struct Merge {
  const Level& level;
  std::uint32_t raw_channel;  // excluded -> owner
  std::uint32_t segments;

  std::uint32_t result_channel() const { return raw_channel + 1; }
  Where column(std::uint32_t number) const { return {fixed(level.first_span + number), outer_plus(0)}; }
  Lane lane(const char* name) const {
    return {.name = fmt::format("{}_{}", name, raw_channel), .outer = segments, .steps = {}};
  }
};

// The first step of a lane holds back all that follow.
void add(Lane& lane, Step step, const std::vector<Wait>& waits) {
  if (!lane.steps.empty() || waits.empty()) {
    lane.steps.push_back(std::move(step));
  } else {
    lane.steps = gated(std::move(step), waits, lane.outer);
  }
}

// An excluded server begins with another column than its neighbours, so that not all send to one owner.
void merge_excluded(const Merge& merge, std::uint32_t server, FirstStage& stage) {
  const Level& level = merge.level;
  const auto shift = static_cast<std::uint32_t>(std::ranges::find(level.excluded, server) - level.excluded.begin());
  Lane out = merge.lane("raw_out");
  Lane into = merge.lane("result_in");
  for (std::uint32_t i = 0; i < level.size(); ++i) {
    const std::uint32_t c = (shift + i) % level.size();
    const Index owner = fixed(level.members[c]);
    add(out, send(owner, merge.column(c), Buffer::kInput, merge.raw_channel), stage.over);
    // In place this overwrites what was sent, but it is made from it.
    add(into, recv(owner, merge.column(c), Buffer::kOutput, merge.result_channel()), {});
  }
  stage.lanes.push_back(std::move(out));
  stage.lanes.push_back(std::move(into));
}

void merge_member(const Merge& merge, std::uint32_t position, FirstStage& stage) {
  const Level& level = merge.level;
  const std::uint32_t t = level.size();
  const Where own = merge.column(position);
  Lane owner = merge.lane("merge");
  for (const std::uint32_t server : level.excluded) {
    add(owner, recv_reduce(fixed(server), own, Buffer::kOutput, Buffer::kOutput, merge.raw_channel), stage.over);
  }
  for (const std::uint32_t server : level.excluded) {
    add(owner, send(fixed(server), own, Buffer::kOutput, merge.result_channel()), {});
  }
  Lane into = merge.lane("result_in");
  for (std::uint32_t i = 1; i < t; ++i) {
    add(owner, send(fixed(level.members[(position + i) % t]), own, Buffer::kOutput, merge.result_channel()), {});
    const std::uint32_t c = (position + t - i) % t;
    add(into, recv(fixed(level.members[c]), merge.column(c), Buffer::kOutput, merge.result_channel()), stage.over);
  }
  stage.lanes.push_back(std::move(owner));
  stage.lanes.push_back(std::move(into));
}

std::vector<Lane> lanes_of(const Levels& levels, std::uint32_t server) {
  FirstStage stage = first_stage(levels, server);
  std::uint32_t channel = levels.channels;
  for (const Level& level : levels.levels) {
    if (!level.merges()) continue;
    const Merge merge{level, channel, levels.segments};
    if (const std::optional<RingPlace> place = place_in(level.members, server); place) {
      merge_member(merge, place->position, stage);
    } else {
      merge_excluded(merge, server, stage);
    }
    channel += 2;
  }
  return std::move(stage.lanes);
}

// The time of the busiest server, for unit data.
double merge_seconds(const Levels& levels, const Cluster& cluster) {
  double slowest = 0;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    double volume = 0;
    for (const Level& level : levels.levels) {
      if (!level.merges()) continue;
      const bool member = std::ranges::find(level.members, server) != level.members.end();
      const auto excluded = static_cast<double>(level.excluded.size());
      volume += level.share * (member ? (level.size() - 1 + excluded) / level.size() : 1.0);
    }
    slowest = std::max(slowest, volume / cluster.server_rate(server));
  }
  return slowest;
}

// An owner must reach every other server.
bool connected(const Levels& levels, const Cluster& cluster) {
  for (const Level& level : levels.levels) {
    if (!level.merges()) continue;
    for (const std::uint32_t u : level.members) {
      for (std::uint32_t v = 0; v < cluster.servers; ++v) {
        if (u != v && edge_capacity(cluster, u, v) <= 0) return false;
      }
    }
  }
  return true;
}

// The least bandwidths of the classes, rising. The two that are nearest to each other are one until there are few
// enough.
std::vector<double> classes_of(const Cluster& cluster) {
  std::vector<double> rates;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) rates.push_back(cluster.server_rate(server));
  std::ranges::sort(rates);
  rates.erase(std::ranges::unique(rates, [](double a, double b) { return b < a * (1 + 1e-6); }).begin(), rates.end());
  while (rates.size() > kMostClasses) {
    std::size_t nearest = 1;
    for (std::size_t i = 2; i < rates.size(); ++i) {
      if (rates[i] / rates[i - 1] < rates[nearest] / rates[nearest - 1]) nearest = i;
    }
    rates.erase(rates.begin() + static_cast<std::ptrdiff_t>(nearest));
  }
  return rates;
}

std::vector<std::uint32_t> servers_from(const Cluster& cluster, double rate) {
  std::vector<std::uint32_t> members;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    if (cluster.server_rate(server) >= rate * (1 - 1e-9)) members.push_back(server);
  }
  return members;
}

// The cheapest choice of classes. All are tried: there are at most 231.
std::optional<Levels> best_levels(const Cluster& cluster) {
  const std::vector<double> classes = classes_of(cluster);
  std::optional<Levels> best;
  double best_s = std::numeric_limits<double>::infinity();
  for (std::uint32_t set = 0; set < 1U << (classes.size() - 1); ++set) {
    if (static_cast<std::uint32_t>(std::popcount(set)) >= kMostLevels) continue;
    std::vector<std::vector<std::uint32_t>> members{in_turn(cluster.servers)};
    for (std::size_t i = 1; i < classes.size(); ++i) {
      if ((set >> (i - 1) & 1) != 0) members.push_back(servers_from(cluster, classes[i]));
    }
    if (members.back().size() < 2) continue;
    Levels levels = levels_of(cluster, members);
    const bool works = std::ranges::any_of(levels.levels, [](const Level& level) { return level.rate > 0; });
    if (!works || !connected(levels, cluster)) continue;
    Cluster ideal = cluster;
    ideal.alpha_s = ideal.port_cost_s = 0;
    const double s = rings_seconds(levels, 1, 1, ideal) + merge_seconds(levels, cluster);
    if (s >= best_s * (1 - 1e-9)) continue;
    best = std::move(levels);
    best_s = s;
  }
  return best;
}

// One server apart from others that are alike is what r2 is made for: two levels, the same volumes.
bool one_degraded(const Cluster& cluster) {
  return cluster.servers >= 3 && servers_from(cluster, cluster.healthy_server_rate()).size() + 1 == cluster.servers;
}

Plan plan_levels(Levels levels, const Request& request, const Cluster& cluster, const Tuning& tuning) {
  const auto bytes = static_cast<double>(request.bytes);
  const double merge_s = bytes * merge_seconds(levels, cluster);
  const auto seconds = [&](std::uint32_t segments) {
    const double messages = 2.0 * segments * cluster.servers / cluster.nics;
    const double merging_s = merge_s + merge_s / segments + 2 * cluster.alpha_s + messages * cluster.port_cost_s;
    return rings_seconds(levels, bytes, segments, cluster) + (merge_s > 0 ? merging_s : 0);
  };
  const std::uint32_t segments = choose_ring_segments(ring_message(levels, bytes), cluster, tuning, seconds);
  Plan plan;
  plan.header = header_for(request, cluster, "recursive");
  lay_out(levels, segments, plan.header);
  if (cluster.fabric == Fabric::kRails) plan.header.shares = shares_by_rate(cluster);
  plan.predicted_s = seconds(segments);
  plan.lanes = [levels = std::move(levels)](std::uint32_t rank) { return lanes_of(levels, rank); };
  return plan;
}

}  // namespace

Result<Plan> plan_recursive(const Request& request, const Cluster& cluster, const Tuning& tuning) {
  if (Status ok = needs_one_gpu(cluster, "recursive"); !ok) return std::unexpected(ok.error());
  if (one_degraded(cluster)) {
    Result<Plan> r2 = plan_r2(request, cluster, tuning);
    if (r2) r2->header.algorithm = "recursive";
    return r2;
  }
  if (cluster.servers == 1) return plan_balance(request, cluster, tuning);
  std::optional<Levels> levels = best_levels(cluster);
  if (!levels) {
    return fail(Fault::kMisuse,
                "recursive finds no rail that is common to the servers of a ring; balance may do without");
  }
  return plan_levels(std::move(*levels), request, cluster, tuning);
}

}  // namespace r2ccl
