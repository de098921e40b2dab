#pragma once
// What all ranks of a communicator believe about the NICs of its servers, as a versioned value, and the cluster it
// means to the planner. Equal maps give equal clusters on every rank.

#include <cstdint>
#include <vector>

#include "topology/cluster.h"
#include "topology/nic.h"

namespace r2ccl {

// Where the ranks are.
struct Placement {
  std::uint32_t servers = 1;
  std::uint32_t gpus = 1;  // ranks per server: rank r is on server r / gpus
  std::uint32_t nics = 1;
  // Ranks that really share the server's NICs, for ranks that are not laid out server by server: then each counts as a
  // server.
  std::vector<std::uint32_t> sharing;  // [server]; 1 where ranks are laid out server by server
  std::vector<double> nic_rate;        // [server * nics + nic] when healthy; 0: there is none
  std::uint32_t played = 1;            // servers that one machine plays, where it plays most: they share its processors
  bool in_memory = true;               // nothing leaves the machine
};
// `members`: by rank. NICs whose speed is not known count as `unknown_rate`.
Placement place(const std::vector<ProcessInfo>& members, double unknown_rate);

// Usable bandwidth in 1/1000 of a healthy NIC's.
using Permille = std::uint16_t;
inline constexpr Permille kWhole = 1000;
inline constexpr Permille kUnseen = UINT16_MAX;  // in reports; never in a map

struct HealthMap {
  std::uint64_t version = 0;
  std::vector<Permille> nic;  // [server * nics + nic]
  friend bool operator==(const HealthMap&, const HealthMap&) = default;
};
HealthMap all_healthy(const Placement& placement);

// What our own transport costs, for the planner.
struct LinkCosts {
  double alpha_s = 10e-6;
  double port_cost_s = 4e-6;  // of a processor; times the servers that a machine plays
  double crowd = 0.15;
  std::uint64_t min_message = 64 << 10;
  double unknown_rate = 1e9;  // of a NIC that does not tell its speed
  double intra_rate = 4e9;
  double reduce_rate = 2e9;  // out of the cache, through memory that was not used before
};
// A server whose NICs are all lost in the map counts as having all of them: it is not for a plan to give up.
Cluster cluster_of(const Placement& placement, const HealthMap& map, Fabric fabric, const LinkCosts& costs);

}  // namespace r2ccl
