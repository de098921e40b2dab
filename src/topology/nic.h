#pragma once
// NICs, and what processes tell each other about theirs, as values.

#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/id.h"

namespace r2ccl {

// How far a NIC is from the memory that is sent: smaller is nearer. Ties break on the id.
enum class Distance : std::uint8_t { kSameSwitch, kSameRoot, kSameNode, kOtherNode };

struct Nic {
  NicId id;
  std::string name;                 // "eth1"; for loopback NICs their address
  Address address;                  // without a port
  std::uint64_t speed_bytes_s = 0;  // 0 = unknown
  Distance distance = Distance::kSameNode;
  bool carrier = true;
};

// What a process tells others about itself at rendezvous.
struct ProcessInfo {
  ProcessId process;
  ServerId server;
  std::uint32_t rank = 0;  // Label for people; unique within a rendezvous.
  std::string host;        // Label for people.
  struct Port {
    NicId nic;
    std::string name;
    Address listen;  // with its port
    std::uint64_t speed_bytes_s = 0;
    friend bool operator==(const Port&, const Port&) = default;
  };
  std::vector<Port> ports;
  friend bool operator==(const ProcessInfo&, const ProcessInfo&) = default;
};

// Routed: any NIC reaches any NIC. Rails: NIC k reaches only NICs k.
enum class Fabric : std::uint8_t { kRouted, kRails };

}  // namespace r2ccl
