#pragma once
// Ranks on this machine that play several servers: which NICs they have and what each finds in its environment. Values
// only.
//
// NIC k of server s is 127.(10+k).0.(1+s). Ranks are numbered server by server; rank 0 hosts the rendezvous.

#include <cstdint>
#include <string>
#include <vector>

#include "apps/r2ccl/common/command.h"
#include "base/address.h"
#include "base/result.h"

namespace r2ccl::apps {

inline constexpr std::uint64_t kRunServersMax = 250;
inline constexpr std::uint64_t kRunRanksMax = 64;  // of one server
inline constexpr std::uint64_t kRunNicsMax = 16;

struct RunPlan {
  std::uint64_t servers = 2;
  std::uint64_t ranks = 1;  // of each server
  std::uint64_t nics = 2;   // of each server
  std::vector<std::string> faults;
  std::string fabric;  // empty: as R2CCL_FABRIC says

  std::uint32_t size() const { return static_cast<std::uint32_t>(servers * ranks); }
};

// --servers, --ranks, --nics, --fault, --fabric. `nics` is what help calls them. The plan outlives the command.
void add_run_options(Command& command, RunPlan& plan, const std::string& nics = "loopback NICs");

// Malformed faults, and those of servers or NICs that there are not: kMisuse with one sentence.
Status check_plan(const RunPlan& plan);

Address run_address(std::uint64_t server, std::uint64_t nic);

// What all ranks of one job share.
struct RunMeeting {
  std::uint16_t master_port = 0;
  std::string secret;  // R2CCL_SECRET
};

// "NAME=value" lines that go before those the process has.
std::vector<std::string> rank_environment(const RunPlan& plan, const RunMeeting& meeting, std::uint32_t rank);

// Draws a secret and finds a port that is free now; the one beside it, where the rendezvous will be, is free too.
Result<RunMeeting> arrange_meeting();

}  // namespace r2ccl::apps
