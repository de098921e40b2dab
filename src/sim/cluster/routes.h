#pragma once
// Which NICs a message uses: pinned rails, planned shares of rails, and how the GPUs of a server share its NICs.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/schedule.h"
#include "sim/cluster/splitter.h"
#include "topology/cluster.h"

namespace r2ccl::sim {

// Messages are not split into smaller parts than this: they would cost more in NIC work than their balance is worth.
inline constexpr double kSmallestPart = 2048;
// The transport sends a message as units of at most so many bytes, each over one NIC.
inline constexpr double kLargestUnit = 128 << 10;

struct NicPair {
  std::uint32_t out = 0;  // of the sending server
  std::uint32_t in = 0;   // of the receiving one
};

// Rates are those of the cluster at the start.
class Routes final {
 public:
  // Both must outlive the object.
  Routes(const Cluster& cluster, const PlanHeader& header);

  // NICs of a lane pinned to `rail`, from server u to v. Nothing if they can not talk or one is lost.
  std::optional<NicPair> pinned(std::uint32_t u, std::uint32_t v, std::uint32_t rail) const;

  // Messages between servers are split over rails by shares: planned ones, or on isolated rails those of the rates.
  bool has_rails() const { return !by_pair_.empty(); }
  // Valid until the next call. Empty: no common rail.
  std::span<const Splitter::Part> rails(std::uint32_t u, std::uint32_t v, double bytes) {
    return by_pair_.split(std::size_t{u} * cluster_.servers + v, bytes);
  }

  // How the messages of each GPU are to be divided over the NICs of its server, when GPU i of all ranks moves
  // `bytes_of_rank[i]`: every NIC carries what its rate is of the server's, and a GPU uses its own NICs as far as that
  // goes. Rows are ranks.
  Splitter by_gpu(const std::vector<double>& bytes_of_rank) const;

  // The GPU sends through this NIC without passing another GPU.
  bool owns(std::uint32_t gpu, std::uint32_t nic) const { return owns_[gpu * cluster_.nics + nic]; }
  // The GPU that others pass to reach this NIC.
  std::uint32_t owner(std::uint32_t nic) const { return owner_[nic]; }

 private:
  std::uint32_t mapped(std::uint32_t server, std::uint32_t rail) const;
  bool alive(std::uint32_t server, std::uint32_t nic) const { return cluster_.nic(server, nic) > 0; }
  std::vector<double> pair_fractions() const;
  void divide(std::uint32_t server, const double* bytes_of_gpu, double* fractions) const;

  const Cluster& cluster_;
  const PlanHeader& header_;
  std::vector<std::uint32_t> owner_;
  std::vector<std::uint8_t> owns_;  // [gpu * nics + nic]
  Splitter by_pair_;
};

}  // namespace r2ccl::sim
