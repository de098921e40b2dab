#pragma once
// Finds the NICs that a process uses, or takes those that the user names.
//
// Ids, and with them rails, follow the order of the user's list, or sorted names if NICs are found. So every server
// numbers its NICs alike without talking to the others.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "env/settings.h"
#include "topology/discover/interface.h"
#include "topology/nic.h"

namespace r2ccl {

inline constexpr std::size_t kNicsMax = 64;

struct NicRequest {
  std::string list = {};    // "eth0,eth1", "10.0.0.1,10.0.1.1", "127.0.0.1,127.0.0.2" (loopback NICs); empty: find them
  std::string filter = {};  // NCCL_SOCKET_IFNAME, used when `list` is empty
  MemoryPlace place = {};   // where the memory is that is sent; decides the distances
  std::uint64_t speed_bytes_s = 0;  // the speed of every NIC; 0: what the interface says
};

NicRequest nic_request(const Settings& settings);

// Pure. NICs that are named but down are kept, without carrier: a job starts on the others and says so. kMisuse
// with one sentence when a name or address is not this machine's, when one is named twice, and when there is no NIC.
Result<std::vector<Nic>> select_nics(const NicRequest& request, std::span<const Interface> interfaces);

// The same with the interfaces that the system has now.
Result<std::vector<Nic>> discover_nics(const NicRequest& request);

}  // namespace r2ccl
