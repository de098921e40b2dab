#pragma once
// A cluster as the planner and the simulator see it: servers x GPUs x NICs with the rates that are usable now, and what
// messages cost. A value; it is the same on every rank that agreed on the same health map.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/nic.h"

namespace r2ccl {

struct Cluster {
  std::uint32_t servers = 1;
  std::uint32_t gpus = 1;  // ranks per server; rank r is GPU r % gpus of server r / gpus
  std::uint32_t nics = 1;  // per server; NIC k of every server together are rail k
  Fabric fabric = Fabric::kRouted;

  double nic_rate = 50e9;    // bytes per second of a healthy NIC, in each direction
  std::vector<double> rate;  // rate[server * nics + nic]: what that NIC moves now; 0 = lost

  double alpha_s = 5e-6;      // from the last byte sent to its receipt; overlaps with other messages
  double port_cost_s = 3e-9;  // how long a message occupies its NIC in addition to its bytes
  double rank_cost_s = 0;     // how long it occupies its rank, which handles one at a time over all NICs
  // How many servers one machine plays: its processors then bear the cost of all their messages.
  double played = 1;
  bool wired = true;  // false: processors move all bytes themselves, so sending overlaps with nothing else they do
  std::uint64_t min_message = 32 << 10;  // the planner does not cut data into messages below this, in bytes
  double intra_rate = 450e9;  // bytes per second that a GPU moves in and out over its server's own fabric (NVLink)
  double intra_alpha_s = 3e-6;
  // Flows from several senders to one receiver do not end together. An exchange of all with all in whole messages
  // takes longer by this share.
  double crowd = 0;
  // Bytes per second that a rank adds up, if that does not overlap with sending; 0: adding costs nothing.
  double reduce_rate = 0;

  std::uint32_t ranks() const { return servers * gpus; }
  double nic(std::uint32_t server, std::uint32_t nic_index) const { return rate[server * nics + nic_index]; }
  double crowded(double exchange_s) const { return servers > 2 ? crowd * exchange_s : 0; }
  // What so many messages of a rank and of its server cost, expressed in messages of one NIC.
  double messages(double of_rank, double of_server) const {
    return std::max(of_server / nics, port_cost_s > 0 ? of_rank * rank_cost_s / port_cost_s : 0);
  }
  double messages(double of_rank) const { return messages(of_rank, of_rank * gpus); }  // if all ranks do the same
  double reduce_s(double bytes) const { return reduce_rate > 0 ? bytes / reduce_rate : 0; }
  double server_rate(std::uint32_t server) const;  // the sum of its NICs
  double healthy_server_rate() const { return nic_rate * nics; }
  bool healthy() const;
  // The NIC nearest to a GPU: GPUs and NICs are spread over each other evenly.
  std::uint32_t home_nic(std::uint32_t gpu) const { return gpus <= nics ? gpu * (nics / gpus) : gpu * nics / gpus; }

  // All NICs at `nic_rate`.
  static Cluster uniform(std::uint32_t servers, std::uint32_t gpus, std::uint32_t nics, double nic_rate);
};

// Fails with one sentence: a NIC out of range, or the last NIC of a server.
Status lose_nic(Cluster& cluster, std::uint32_t server, std::uint32_t nic);
// `fraction` of the healthy rate is left; in (0, 1].
Status slow_nic(Cluster& cluster, std::uint32_t server, std::uint32_t nic, double fraction);
// Whether plans can be made for it: its numbers make sense, and every server has a NIC left.
Status validate(const Cluster& cluster);

}  // namespace r2ccl
