#pragma once
// The network of PortModel::kOnePort, the OptCC paper's: a server's NICs are one port that serves one peer at a time in
// each direction; a transfer holds both ports and runs at the slower one's rate. Rails do not matter here.

#include <vector>

#include "sim/cluster/replay.h"
#include "sim/cluster/timing.h"

namespace r2ccl::sim {

class OnePort final {
 public:
  static constexpr bool kDeferred = false;

  // All must outlive the object. Bytes and occupancy of a server count on its NIC 0.
  OnePort(const Cluster& cluster, const TimingOptions& options, Timing& timing);

  double send(const Message& message);
  // A server's port, then every rank's fabric port.
  std::uint32_t queues() const { return cluster_.servers + cluster_.ranks(); }
  std::uint32_t queue_of(const Message& message) const;
  double free_s(const Message& message) const;
  double leaves_s(const Message& message, double free_s) const;

 private:
  const Cluster& cluster_;
  const TimingOptions& options_;
  Timing& timing_;
  std::vector<double> rate_;        // [server]
  std::vector<double> out_free_s_;  // [server]
  std::vector<double> in_free_s_;
  std::vector<double> fabric_out_free_s_;  // [rank]
  std::vector<double> fabric_in_free_s_;
};

}  // namespace r2ccl::sim
