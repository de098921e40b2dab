#pragma once
// How this server reaches the place where the ranks of a job meet (MASTER_ADDR, NCCL_COMM_ID). The place is an address
// of any interface of rank 0's server: of a data NIC, of a management network that carries no data, or of loopback.
//
// If a data NIC leads there, control uses that NIC, as it does without a place. Otherwise it uses the *management NIC*:
// not one interface, but whichever the system's routes choose at each attempt. It never carries data.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "topology/discover/interface.h"
#include "topology/nic.h"

namespace r2ccl {

struct MeetingPlace {
  std::string host;                // as somebody wrote it, for people
  std::vector<Address> addresses;  // with their port; at least one
  bool named = false;              // `host` is a name: another server may know it by other addresses
};

inline constexpr std::string_view kManagementNicName = "(any NIC)";  // no interface can have this name

struct WayToPlace {
  Nic management;             // numbered behind the data NICs; listens at its address, or everywhere
  NicId dial;                 // a data NIC, or the management NIC
  std::optional<NicId> host;  // where rank 0 listens; nullopt: the place is not on this server
};

// Pure. `sources` holds, for each of the place's addresses, the address that a connection to it would come from;
// nullopt: no route leads there. If the place is a name, rank 0 listens everywhere, because other servers may know the
// name by another address (to itself a host's own name is often 127.0.1.1). If it is an address, rank 0 listens only
// there. kMisuse when an address has a zone that is no interface of this server, or needs one.
Result<WayToPlace> way_to_place(const MeetingPlace& place, std::span<const Nic> data_nics,
                                std::span<const Interface> interfaces, std::span<const std::optional<Address>> sources);

}  // namespace r2ccl
