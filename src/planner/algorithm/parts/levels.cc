#include "planner/algorithm/parts/levels.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"
#include "planner/algorithm/parts/steps.h"
#include "planner/algorithm/rings/ring.h"

namespace r2ccl {
namespace {

// [server * nics + rail] = NIC
std::vector<std::uint8_t> fastest_first(const Cluster& cluster) {
  std::vector<std::uint8_t> nic_of_rail;
  std::vector<std::uint8_t> nics(cluster.nics);
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    std::iota(nics.begin(), nics.end(), std::uint8_t{0});
    if (cluster.fabric == Fabric::kRouted) {
      std::ranges::stable_sort(nics, std::greater<>(), [&](std::uint8_t nic) { return cluster.nic(server, nic); });
    }
    nic_of_rail.insert(nic_of_rail.end(), nics.begin(), nics.end());
  }
  return nic_of_rail;
}

// What every member of a level can move on a rail: the rate of the slowest of their NICs.
double common_rate(const Cluster& cluster, const Levels& levels, const Level& level, std::uint32_t rail) {
  double least = cluster.nic_rate;
  for (const std::uint32_t server : level.members) {
    least = std::min(least, cluster.nic(server, levels.nic_of_rail[server * cluster.nics + rail]));
  }
  return least;
}

// A ring of p moves 2 (p - 1) / p of its data through every member.
double ring_volume(const Level& level) {
  return 2.0 * (level.size() - 1) / level.size();
}

double piece_share(const Level& level, std::uint32_t rail) {
  return level.share * level.rail_rate[rail] / level.rate / level.size();
}

}  // namespace

Levels levels_of(const Cluster& cluster, const std::vector<std::vector<std::uint32_t>>& members) {
  Levels result;
  result.nic_of_rail = fastest_first(cluster);
  std::vector<double> taken(cluster.nics, 0);
  double all = 0;
  for (const std::vector<std::uint32_t>& of_level : members) {
    R2CCL_ASSERT(of_level.size() >= 2, "a ring of fewer than two servers");
    Level level;
    level.members = of_level;
    for (std::uint32_t server = 0; server < cluster.servers; ++server) {
      if (std::ranges::find(of_level, server) == of_level.end()) level.excluded.push_back(server);
    }
    for (std::uint32_t rail = 0; rail < cluster.nics; ++rail) {
      const double common = common_rate(cluster, result, level, rail);
      level.rail_rate.push_back(common - taken[rail]);
      taken[rail] = common;
    }
    level.rate = std::accumulate(level.rail_rate.begin(), level.rail_rate.end(), 0.0);
    level.share = level.rate / ring_volume(level);
    all += level.share;
    result.levels.push_back(std::move(level));
  }
  for (Level& level : result.levels) level.share = all > 0 ? level.share / all : 0;
  return result;
}

void lay_out(Levels& levels, std::uint32_t segments, PlanHeader& header) {
  levels.segments = segments;
  levels.channels = 0;
  std::vector<double> weights;
  for (Level& level : levels.levels) {
    level.rails.clear();
    for (std::uint32_t rail = 0; rail < level.rail_rate.size(); ++rail) {
      if (level.rail_rate[rail] > 0) level.rails.push_back(rail);
    }
    level.first_piece = static_cast<std::uint32_t>(weights.size());
    level.first_channel = levels.channels;
    levels.channels += static_cast<std::uint32_t>(level.rails.size());
    for (std::uint32_t column = 0; column < level.size(); ++column) {
      for (const std::uint32_t rail : level.rails) weights.push_back(piece_share(level, rail));
    }
  }
  header.layout.bounds = piece_bounds(weights);
  header.layout.segments = segments;
  for (Level& level : levels.levels) {
    level.first_span = header.layout.span_count();
    const auto width = static_cast<std::uint32_t>(level.rails.size());
    for (std::uint32_t column = 0; width > 0 && column < level.size(); ++column) {
      header.layout.spans.push_back({level.first_piece + column * width, width});
    }
  }
  header.slots = ring_slots(segments);
  header.nic_of_rail = levels.nic_of_rail;
}

FirstStage first_stage(const Levels& levels, std::uint32_t server) {
  FirstStage stage;
  for (const Level& level : levels.levels) {
    std::optional<RingPlace> place = place_in(level.members, server);
    if (!place) continue;
    const RingEnd end = level.merges() ? RingEnd::kResultsFree : RingEnd::kResults;
    place->stride = static_cast<std::uint32_t>(level.rails.size());
    for (std::uint32_t i = 0; i < level.rails.size(); ++i) {
      place->first_piece = level.first_piece + i;
      place->channel = level.first_channel + i;
      const auto lane = static_cast<std::uint32_t>(stage.lanes.size());
      stage.lanes.push_back(ring_lane(*place, levels.segments, static_cast<std::int32_t>(level.rails[i])));
      std::ranges::copy(ring_over(lane, level.size(), end), std::back_inserter(stage.over));
    }
  }
  return stage;
}

double rings_seconds(const Levels& levels, double bytes, std::uint32_t segments, const Cluster& cluster) {
  double slowest = 0;
  for (const Level& level : levels.levels) {
    if (level.rate <= 0) continue;
    // All rails of a level take the same time, so they are one of their joint rate.
    const RingLoad load{.members = level.size(), .piece_bytes = level.share * bytes / level.size(), .rate = level.rate};
    slowest = std::max(slowest, ring_seconds(load, segments, cluster));
  }
  return slowest;
}

double ring_message(const Levels& levels, double bytes) {
  double smallest = bytes;
  for (const Level& level : levels.levels) {
    const auto rails = static_cast<double>(std::ranges::count_if(level.rail_rate, [](double r) { return r > 0; }));
    if (rails > 0) smallest = std::min(smallest, level.share * bytes / rails / level.size());
  }
  return smallest;
}

std::vector<Step> gated(Step step, const std::vector<Wait>& waits, std::uint32_t outer) {
  Step first = during(0, 1, step);
  first.waits.insert(first.waits.end(), waits.begin(), waits.end());
  std::vector<Step> steps{std::move(first)};
  if (outer > 1) steps.push_back(during(1, outer, std::move(step)));
  return steps;
}

}  // namespace r2ccl
