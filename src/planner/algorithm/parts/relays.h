#pragma once
// How broadcast and reduce use all servers at once: the data is cut into one part for each server but the root's. That
// server relays its part between the root's server and all others, so no server moves more than the data once in each
// direction, in two hops.
//
// With several GPUs a part is cut once more, into shards: GPU j of every server serves the shard of its number. The
// root itself serves none: its port inside the server is busy with handing the data out, or taking it in, exactly once.

#include <array>
#include <cstdint>
#include <vector>

#include "planner/algorithm/parts/pair_network.h"
#include "planner/algorithm/parts/steps.h"
#include "planner/pipeline.h"
#include "planner/plan.h"

namespace r2ccl {

class Relays final {
 public:
  Relays(const Cluster& cluster, std::uint32_t root)
      : servers_(cluster.servers), gpus_(cluster.gpus), root_(place_of(root, cluster.gpus)) {}

  std::uint32_t shards() const { return gpus_ > 1 ? gpus_ - 1 : 1; }
  RankPlace place(std::uint32_t rank) const { return place_of(rank, gpus_); }
  bool in_root_server(std::uint32_t rank) const { return place(rank).server == root_.server; }
  bool has_shard(std::uint32_t gpu) const { return gpus_ == 1 || gpu != root_.gpu; }
  std::uint32_t shard(std::uint32_t gpu) const { return gpus_ == 1 ? 0 : (gpu + gpus_ - root_.gpu - 1) % gpus_; }
  // GPUs that serve a shard, without `gpu`.
  std::vector<std::uint32_t> other_sharers(std::uint32_t gpu) const;
  // All GPUs of a server but `gpu`.
  std::vector<std::uint32_t> neighbours(std::uint32_t gpu) const;

  Index rank(const Index& server, std::uint32_t gpu) const { return on_gpu(server, gpus_, gpu); }
  Index rank(std::uint32_t server, std::uint32_t gpu) const { return fixed(server * gpus_ + gpu); }
  // The piece of a server's part that is in the shard of `gpu`.
  Index piece(Index server, std::uint32_t gpu) const {
    server.offset = static_cast<std::int32_t>(shard(gpu) * servers_);
    return server;
  }
  Index piece(std::uint32_t server, std::uint32_t gpu) const { return fixed(shard(gpu) * servers_ + server); }

  // A run of servers, as an index over an inner loop.
  struct Run {
    Index server;
    std::uint32_t count = 0;
  };
  // All that relay; the root's alone where there is no other.
  Run all() const { return {rotate(root_.server + 1, 1, servers_), servers_ > 1 ? servers_ - 1 : 1}; }
  // All that relay besides `server`: those after it up to the root's, and those before it, both nearest first. Whom one
  // server meets i-th among those after it, meets it i-th among those before.
  std::array<Run, 2> others(std::uint32_t server) const;

  // Pieces: shards x servers; the part of the root's server is empty. Span number pieces() is everything.
  Layout layout(std::uint32_t segments) const;
  std::uint32_t everything() const { return shards() * servers_; }
  std::uint32_t root_rank() const { return root_.server * gpus_ + root_.gpu; }
  std::uint32_t root_gpu() const { return root_.gpu; }
  std::uint32_t root_server() const { return root_.server; }

 private:
  std::uint32_t servers_;
  std::uint32_t gpus_;
  RankPlace root_;
};

// Channels inside a server: what is of its own part, and what is of others', by run of Relays::others().
inline constexpr std::uint32_t kOwnPartChannel = 1;
inline constexpr std::array<std::uint32_t, 2> kNearChannel{2, 3};

// Adds the lanes in which `me` takes from each other GPU of its server the shard of that one (`outward`), or gives it
// to that one to add up: in the root's server all parts at once, on the channel of the first run; elsewhere the own
// part and each run.
void add_near_lanes(std::vector<Lane>& lanes, const RankPlace& me, const Relays& relays, std::uint32_t segments,
                    bool outward);

// Everything but the lanes of broadcast (`outward`) or reduce by relays.
Result<Plan> plan_relays(const Request& request, const Cluster& cluster, const Tuning& tuning, std::string_view name,
                         bool outward);
// The cheapest tree, of any degree, for the same. Where rails do not join all servers, one that goes around.
Result<Plan> plan_one_tree(const Request& request, const Cluster& cluster, const Tuning& tuning, std::string_view name,
                           bool outward);

}  // namespace r2ccl
