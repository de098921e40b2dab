#pragma once
// The network interfaces of this machine, as values. Only read_interfaces() touches the system.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "topology/nic.h"

namespace r2ccl {

struct Interface {
  std::string name;
  std::vector<Address> addresses;
  bool up = false;  // administratively
  bool carrier = false;
  bool loopback = false;
  std::uint64_t speed_bytes_s = 0;  // 0 = unknown (virtual interfaces, no carrier)
  int numa_node = -1;               // -1 = unknown
  std::string pci_path;             // "pci0000:00/0000:00:01.0/0000:01:00.0"; empty for virtual interfaces
};

// From getifaddrs() and `sysfs`/class/net, sorted by name. What can not be read stays unknown.
std::vector<Interface> read_interfaces(const std::string& sysfs = "/sys");

// The PCI part of a device path: from "…/devices/pci0000:00/0000:00:01.0/0000:01:00.0/net/eth0" the part above "net".
std::string pci_path_of(std::string_view device_path);

// The place of the memory that is sent: a NUMA node and, for a GPU, its PCI path.
struct MemoryPlace {
  int numa_node = -1;
  std::string pci_path;
};
// Unknown counts as the same node: a wrong guess must not push traffic away from a NIC.
Distance distance_from(const MemoryPlace& place, const Interface& interface);

}  // namespace r2ccl
