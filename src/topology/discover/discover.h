#pragma once
// The NICs a process uses: named by the user, or found.
//
// Ids, and with them rails, go by the order of the user's list, or by sorted name where NICs are found: every server then
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
  MemoryPlace place = {};   // where the memory is, for the distances
  std::uint64_t speed_bytes_s = 0;  // of every NIC; 0: as the interface tells it
};

NicRequest nic_request(const Settings& settings);

// Pure. NICs that are named but down are kept without carrier: a job starts on the others and says so. Misuse with one sentence when
// a name or address is not of this machine, when one is named twice, and when no NIC is left.
Result<std::vector<Nic>> select_nics(const NicRequest& request, std::span<const Interface> interfaces);

// The same over what the system has now.
Result<std::vector<Nic>> discover_nics(const NicRequest& request);

}  // namespace r2ccl
