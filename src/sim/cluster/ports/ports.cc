#include "sim/cluster/ports/ports.h"

#include <algorithm>

namespace r2ccl::sim {

NicRates::NicRates(const Cluster& cluster, std::span<const NicFault> faults) : rate_(cluster.rate) {
  for (const double rate : rate_) seconds_per_byte_.push_back(rate > 0 ? 1 / rate : kNever);
  for (const NicFault& fault : faults)
    changes_.push_back({fault.server * cluster.nics + fault.nic, fault.at_s, fault.rate});
  std::stable_sort(changes_.begin(), changes_.end(),
                   [](const Change& a, const Change& b) { return a.nic != b.nic ? a.nic < b.nic : a.at_s < b.at_s; });
}

std::span<const NicRates::Change> NicRates::changes_of(std::uint32_t nic) const {
  const auto first =
      std::partition_point(changes_.begin(), changes_.end(), [=](const Change& c) { return c.nic < nic; });
  const auto last = std::find_if(first, changes_.end(), [=](const Change& c) { return c.nic != nic; });
  return {first, last};
}

double NicRates::at(std::uint32_t nic, double time_s) const {
  double rate = rate_[nic];
  for (const Change& change : changes_of(nic)) {
    if (change.at_s <= time_s) rate = change.rate;
  }
  return rate;
}

NicRates::Service NicRates::serve(std::uint32_t nic, double begin_s, double bytes) const {
  double now_s = begin_s;
  double rate = at(nic, begin_s);
  for (const Change& change : changes_of(nic)) {
    if (change.at_s <= begin_s) continue;
    const double moved = (change.at_s - now_s) * rate;
    if (moved >= bytes) break;
    if (change.rate <= 0) return {kNever, change.at_s};
    bytes -= moved;
    now_s = change.at_s;
    rate = change.rate;
  }
  return {now_s + bytes / rate, kNever};
}

}  // namespace r2ccl::sim
