#pragma once
// What NCCL sees of the NICs: one device with the speed of all, or one per NIC. Either way every connection uses all
// NICs. Pure: the caller hands in what it has read of the interfaces.

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/discover/interface.h"
#include "topology/nic.h"

namespace r2ccl::plugin {

struct NetDevice {
  std::string name;
  std::string pci_path;  // "/sys/devices/pci…" as NCCL's search wants it; empty: none
  std::uint64_t guid = 0;
  int speed_mbit_s = 0;
  int rail = 0;
};

inline constexpr int kUnknownSpeedMbit = 10'000;  // what NCCL assumes where an interface does not say

// `pooled`: one device. Its place is that of the first NIC with a PCI path.
std::vector<NetDevice> make_devices(std::span<const Nic> nics, std::span<const Interface> interfaces, bool pooled);

}  // namespace r2ccl::plugin
