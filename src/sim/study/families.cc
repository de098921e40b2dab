// The clusters that our targets are stated for, drawn at random.

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "env/seeded_random.h"
#include "sim/study/sweep.h"

namespace r2ccl::sim {
namespace {

constexpr double kGbit = 1e9 / 8;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

template <class T, std::size_t n>
T pick(SeededRandom& random, const std::array<T, n>& from) {
  return from[random.below(n)];
}

// Any number of servers from `low` to `high`, small ones as likely as large ones.
std::uint32_t draw_servers(SeededRandom& random, std::uint32_t low, std::uint32_t high) {
  std::uint32_t top = low;
  while (top < high && random.below(4) != 0) top = std::min(2 * top, high);
  return static_cast<std::uint32_t>(random.between(std::max(low, top / 2), top));
}

Cluster draw_cluster(SeededRandom& random, std::uint32_t servers, std::uint32_t nics, double most_alpha_s) {
  const double rate = pick(random, std::array{100 * kGbit, 200 * kGbit, 400 * kGbit});
  Cluster cluster = Cluster::uniform(servers, 1, nics, rate);
  cluster.alpha_s = std::min(most_alpha_s, pick(random, std::array{5e-6, 10e-6, 20e-6}));
  return cluster;
}

// Every server reaches every other one over working rails, if need be over others.
bool joined_by_rails(const Cluster& cluster) {
  std::vector<bool> reached(cluster.servers, false);
  std::vector<std::uint32_t> open{0};
  reached[0] = true;
  while (!open.empty()) {
    const std::uint32_t u = open.back();
    open.pop_back();
    for (std::uint32_t v = 0; v < cluster.servers; ++v) {
      for (std::uint32_t k = 0; k < cluster.nics && !reached[v]; ++k) {
        if (cluster.nic(u, k) <= 0 || cluster.nic(v, k) <= 0) continue;
        reached[v] = true;
        open.push_back(v);
      }
    }
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

std::uint64_t draw_bytes(SeededRandom& random) {
  return pick(random, std::array{256 * kMiB, 1024 * kMiB, 4096 * kMiB});
}

}  // namespace

std::string_view to_text(Family family) {
  switch (family) {
    case Family::kRouted:
      return "routed";
    case Family::kRailsSmall:
      return "rails-small";
    case Family::kRailsLarge:
      return "rails-large";
    case Family::kGpus:
      return "gpus";
  }
  R2CCL_ASSERT(false, "a family without a name");
}

Case draw_case(Family family, std::uint64_t seed) {
  SeededRandom random(seed);
  Case drawn{.seed = seed, .request = {.bytes = draw_bytes(random)}, .cluster = {}, .damage = {}};
  std::uint32_t failures = 0;
  bool some_slow = true;
  switch (family) {
    case Family::kRouted:
    case Family::kRailsLarge:
      drawn.cluster = draw_cluster(random, draw_servers(random, 4, 128), pick(random, std::array{4u, 8u}), 20e-6);
      failures = static_cast<std::uint32_t>(random.between(1, std::max(1u, drawn.cluster.servers / 3)));
      break;
    case Family::kRailsSmall: {
      drawn.cluster = draw_cluster(random, static_cast<std::uint32_t>(random.between(3, 8)),
                                   pick(random, std::array{2u, 3u, 4u, 8u}), 10e-6);
      const std::uint32_t all = drawn.cluster.servers * drawn.cluster.nics;
      const bool heavy = random.below(2) == 1;
      failures =
          static_cast<std::uint32_t>(random.between(1, std::max(1u, heavy ? 2 * all / 3 : drawn.cluster.servers / 3)));
      break;
    }
    case Family::kGpus:
      drawn.cluster = Cluster::uniform(draw_servers(random, 4, 128), 8, 8, 400 * kGbit);
      drawn.request.bytes = pick(random, std::array{256 * kMiB, 1024 * kMiB});
      failures = static_cast<std::uint32_t>(random.between(0, 4));
      some_slow = false;
      break;
  }
  if (family == Family::kRailsLarge || family == Family::kRailsSmall) drawn.cluster.fabric = Fabric::kRails;
  // Damage that cuts servers off from each other is beyond any schedule: fewer failures then.
  const Cluster whole = drawn.cluster;
  do {
    drawn.cluster = whole;
    drawn.damage = draw_damage(drawn.cluster, failures--, some_slow, ~seed);
  } while (whole.fabric == Fabric::kRails && !joined_by_rails(drawn.cluster));
  return drawn;
}

}  // namespace r2ccl::sim
