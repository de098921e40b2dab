#pragma once
// The rates of NICs over the time of a collective. A rate is constant until a fault changes it.

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/cluster/timing.h"
#include "topology/cluster.h"

namespace r2ccl::sim {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

// A use of a port.
struct Use {
  double begin_s = 0;
  double end_s = 0;
};

class NicRates final {
 public:
  // NICs are numbered server * nics + nic. Faults need not be sorted; later ones of equal time win.
  NicRates(const Cluster& cluster, std::span<const NicFault> faults);

  bool constant() const { return changes_.empty(); }
  // Seconds per byte at the start; infinite for a lost NIC.
  const std::vector<double>& seconds_per_byte() const { return seconds_per_byte_; }
  double at(std::uint32_t nic, double time_s) const;

  struct Service {
    double end_s = 0;
    double lost_at_s = kNever;  // the NIC was lost before the end
  };
  // When a NIC that begins at `begin_s` has moved `bytes`. It must have a rate then.
  Service serve(std::uint32_t nic, double begin_s, double bytes) const;

 private:
  struct Change {
    std::uint32_t nic = 0;
    double at_s = 0;
    double rate = 0;
  };
  std::span<const Change> changes_of(std::uint32_t nic) const;

  std::vector<double> rate_;
  std::vector<double> seconds_per_byte_;
  std::vector<Change> changes_;  // by NIC, then time
};

}  // namespace r2ccl::sim
