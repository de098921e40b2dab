#pragma once
// Where a process stands in the job that a launcher started: its rank, how many there are, and where they meet. Found
// from the environment, which is handed in.
//
// Rank and size, of the first of these that says anything:
//
//   r2ccl run   R2CCL_RANK, R2CCL_SIZE                        local rank: R2CCL_LOCAL_RANK
//   torchrun    RANK, WORLD_SIZE                                          LOCAL_RANK
//   Open MPI    OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE                OMPI_COMM_WORLD_LOCAL_RANK
//   PMI         PMI_RANK, PMI_SIZE                                        MPI_LOCALRANKID
//   Slurm       SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS        SLURM_LOCALID
//
// Slurm comes last because inside an allocation its variables are there under other launchers, too; SLURM_NTASKS alone,
// as in a shell of salloc, says nothing.
//
// The place to meet, of the first that there is:
//
//   R2CCL_UNIQUE_ID   an id that somebody hosts already
//   NCCL_COMM_ID      host:port
//   MASTER_ADDR       with MASTER_PORT (29500). The port used is another one, because whoever set MASTER_PORT listens
//                     there
//   Open MPI          all ranks on one machine: 127.0.0.1; else the address of mpirun in OMPI_MCA_orte_hnp_uri, where
//                     rank 0 is as a rule. Port from OMPI_MCA_ess_base_jobid or PMIX_NAMESPACE
//   Slurm             the first host of SLURM_STEP_NODELIST, where rank 0 is, else SLURM_LAUNCH_NODE_IPADDR. Port from
//                     SLURM_JOB_ID and SLURM_STEP_ID
//
// Derived ports lie from 20000 to 31999, below those that systems give out. Rank 0 hosts; the id follows from port and
// R2CCL_SECRET. Hosts are names, IPv4 or IPv6 addresses (with their zone where they are link-local: fe80::1%eth0), of
// any interface of rank 0's server.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/result.h"
#include "control/unique_id.h"
#include "env/settings.h"
#include "process/world.h"

namespace r2ccl {

struct Launched {
  std::string launcher;  // "torchrun", for people
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::uint32_t local_rank = 0;
  std::optional<UniqueId> id;  // else rank 0 hosts at
  std::string host;            // a name or an address, and
  std::uint16_t port = 0;
};

// Nothing when no launcher was at work. kMisuse with one sentence when variables are malformed, half of a pair is
// missing, or there is no place to meet. A job of one rank needs none. Empty values count as unset.
Result<std::optional<Launched>> find_launch(std::span<const std::string_view> environment);

// The port used instead of the launcher's own; also for `r2ccl run`, which must find one where both are free.
std::uint16_t port_beside(std::uint16_t master_port);

// What NCCL_COMM_ID says: host:port, [address]:port.
struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;
};
Result<HostAndPort> parse_comm_id(const std::string& text);

// Looks the host up, which may block. All its addresses, IPv4 before IPv6; those of loopback only where there is no
// other.
Result<MeetingPlace> resolve(const std::string& host, std::uint16_t port);
// Where the launched ranks meet; nullopt where an id is hosted already, or there is only one rank.
Result<std::optional<MeetingPlace>> place_of(const Launched& launch);

// The settings this process should run with: where the place to meet is a loopback address (or localhost) all ranks are
// on this machine, and it is their NIC unless R2CCL_NICS says otherwise. A name that this server knows by a loopback
// address only, as many do their own, says that where there is no other NIC.
Settings settings_for(const Settings& settings, const std::optional<MeetingPlace>& place);

// The id to join with; the world has the place. At rank 0 the root is hosted when it returns.
Result<UniqueId> meet(World& world, const Launched& launch);

}  // namespace r2ccl
