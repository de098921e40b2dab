#include "apps/r2ccl/run/run_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cstring>

#include "env/real/real.h"
#include "process/launched_by.h"
#include "transport/fault/fault_spec.h"

namespace r2ccl::apps {
namespace {

bool is_free(const Address& address) {
  sockaddr_in raw{};
  raw.sin_family = AF_INET;
  raw.sin_port = htons(address.port);
  std::memcpy(&raw.sin_addr, address.ip.data() + 12, 4);
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&raw), sizeof raw) == 0;
  ::close(fd);
  return bound;
}

}  // namespace

void add_run_options(Command& command, RunPlan& plan, const std::string& nics) {
  command.integer({"--servers", 1, kRunServersMax, "servers that this machine plays; 2 by default"}, plan.servers);
  command.integer({"--ranks", 1, kRunRanksMax, "ranks of each server; 1 by default"}, plan.ranks);
  command.integer({"--nics", 1, kRunNicsMax, nics + " of each server; 2 by default"}, plan.nics);
  command.texts("--fault", plan.faults, "e.g. 'at=2s server=0 nic=1 kind=cable for=1s'; repeatable")
      .one_each()
      .value_name("F");
  command.text("--fabric", plan.fabric, "whether any NIC reaches any NIC, or only its own rail")
      .one_of({"routed", "rails"})
      .value_name("routed|rails");
}

Status check_plan(const RunPlan& plan) {
  for (const std::string& text : plan.faults) {
    const auto faults = parse_faults(text);
    if (!faults) return std::unexpected(faults.error());
    for (const FaultSpec& fault : *faults) {
      if (fault.server.value < plan.servers && fault.nic.value < plan.nics) continue;
      return fail(Fault::kMisuse, fmt::format("fault '{}': there are {} servers with {} NICs, counted from 0",
                                              to_text(fault), plan.servers, plan.nics));
    }
  }
  return {};
}

Address run_address(std::uint64_t server, std::uint64_t nic) {
  return Address::v4(127, static_cast<std::uint8_t>(10 + nic), 0, static_cast<std::uint8_t>(1 + server));
}

std::vector<std::string> rank_environment(const RunPlan& plan, const RunMeeting& meeting, std::uint32_t rank) {
  const std::uint64_t server = rank / plan.ranks;
  const std::uint64_t local = rank % plan.ranks;
  std::vector<std::string> addresses;
  for (std::uint64_t nic = 0; nic < plan.nics; ++nic) addresses.push_back(to_text(run_address(server, nic)));
  std::vector<std::string> lines{
      fmt::format("R2CCL_NICS={}", fmt::join(addresses, ",")),
      fmt::format("R2CCL_SERVER={}", server),
      fmt::format("R2CCL_RANK={}", rank),
      fmt::format("R2CCL_SIZE={}", plan.size()),
      fmt::format("R2CCL_LOCAL_RANK={}", local),
      fmt::format("R2CCL_SECRET={}", meeting.secret),
      fmt::format("RANK={}", rank),
      fmt::format("WORLD_SIZE={}", plan.size()),
      fmt::format("LOCAL_RANK={}", local),
      fmt::format("LOCAL_WORLD_SIZE={}", plan.ranks),
      fmt::format("MASTER_ADDR={}", to_text(run_address(0, 0))),
      fmt::format("MASTER_PORT={}", meeting.master_port),
      // What an outer job left would lead elsewhere.
      "R2CCL_UNIQUE_ID=",
      "NCCL_COMM_ID=",
  };
  if (!plan.faults.empty()) lines.push_back(fmt::format("R2CCL_FAULT={}", fmt::join(plan.faults, ";")));
  if (!plan.fabric.empty()) lines.push_back(fmt::format("R2CCL_FABRIC={}", plan.fabric));
  return lines;
}

Result<RunMeeting> arrange_meeting() {
  constexpr int kTries = 200;
  SodiumRandom random;
  RunMeeting meeting;
  meeting.secret = fmt::format("{:016x}{:016x}", random.next(), random.next());
  for (int i = 0; i < kTries; ++i) {
    meeting.master_port = static_cast<std::uint16_t>(10000 + random.next() % 10000);
    Address address = run_address(0, 0);
    address.port = meeting.master_port;
    if (!is_free(address)) continue;
    address.port = port_beside(meeting.master_port);
    if (is_free(address)) return meeting;
  }
  return fail(Fault::kBusy, fmt::format("no free port was found on {}", to_text(run_address(0, 0))));
}

}  // namespace r2ccl::apps
