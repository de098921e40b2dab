#pragma once
// An emulated cluster as a value: what it is called, how large it is, and from that every name and address in it.
//
//   server s          namespace r2ccl-NAME-s<s>     eth<k>   10.(10+k).0.(1+s)/16   NIC k
//                                                   mgmt0    10.250.0.(1+s)/16      not shaped; no fault touches it
//                     with IPv6 instead: eth<k> fd00:0:0:<10+k>::<1+s>/64, fe80::<10+k>:<1+s>; mgmt0 as network 250
//   the switch        namespace r2ccl-NAME-switch   s<s>p<k> the other end of NIC k of server s, in its rail's bridge
//                                                   s<s>m    the other end of mgmt0, in the bridge mgmt
//
// The bridge of rail k is rail<k>: isolated rails. In a routed fabric it is `spine` for all rails, and every NIC
// reaches every NIC.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "topology/nic.h"

namespace r2ccl::lab {

inline constexpr std::uint64_t kServersMax = 250;
inline constexpr std::uint64_t kRailsMax = 16;
inline constexpr std::uint64_t kRateMin = 125'000;        // 1 mbit
inline constexpr std::uint64_t kRateMax = 2'000'000'000;  // 16 gbit: libnl holds bytes per second in an int
inline constexpr std::size_t kNameMax = 32;
inline constexpr std::string_view kManagementNic = "mgmt0";    // in a server
inline constexpr std::string_view kManagementBridge = "mgmt";  // in the switch

struct LabPlan {
  std::string name = "lab";
  std::uint64_t servers = 2;
  std::uint64_t nics = 2;                        // of each server
  std::uint64_t rate_bytes_s = 500'000'000 / 8;  // of each NIC, each way
  Fabric fabric = Fabric::kRouted;
  bool ipv6 = false;  // in place of IPv4
  friend bool operator==(const LabPlan&, const LabPlan&) = default;

  // The management NIC as faults name it: its number follows those of the others.
  NicId management() const { return {static_cast<std::uint8_t>(nics)}; }
};

// kMisuse with one sentence when a lab can not be so. A name has letters, digits, '-' and '_'.
Status check_name(std::string_view name);
Status check(const LabPlan& plan);

std::string server_namespace(const LabPlan& plan, std::uint64_t server);
std::string switch_namespace(const LabPlan& plan);
std::vector<std::string> namespaces(const LabPlan& plan);  // the switch's first

std::string nic_name(std::uint64_t nic);                          // in its server
std::string port_name(std::uint64_t server, std::uint64_t nic);   // in the switch
std::string bridge_name(const LabPlan& plan, std::uint64_t nic);  // in the switch
std::vector<std::string> bridges(const LabPlan& plan);            // with the management network's
Address nic_address(const LabPlan& plan, std::uint64_t server, std::uint64_t nic);
Address management_address(const LabPlan& plan, std::uint64_t server);
// Lines of /etc/hosts: server<s> is its first NIC, server<s>-mgmt its address on the management network.
std::string host_names(const LabPlan& plan);

// One cable between a server and the switch.
struct Cable {
  std::string nic;   // its end in the server
  std::string port;  // its end in the switch
  std::string bridge;
  Address address;
  std::optional<Address> link_local;   // with IPv6
  std::uint64_t rate_bytes_s = 0;      // 0: not shaped
  std::optional<std::uint64_t> table;  // routes what comes from `address`, in a routed fabric
};
std::vector<Cable> cables(const LabPlan& plan, std::uint64_t server);  // NICs in their order, then management

// How a rate is kept: what may go at once, and what may wait.
struct Shape {
  std::uint64_t rate_bytes_s = 0;
  std::uint64_t burst_bytes = 0;
  std::uint64_t limit_bytes = 0;
};
Shape shape_of(std::uint64_t rate_bytes_s);

// A lab as its state file tells it: "key=value" lines.
struct LabState {
  LabPlan plan;
  std::uint64_t process = 0;  // that made it
  bool kept = true;           // false: it goes when that process does
  friend bool operator==(const LabState&, const LabState&) = default;
};
std::string to_text(const LabState& state);
Result<LabState> parse_state(std::string_view text);

}  // namespace r2ccl::lab
