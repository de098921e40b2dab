// Ranks meet where launchers say with MASTER_ADDR or NCCL_COMM_ID: at any address of rank 0's server. Data are checked
// element by element; which way control went is read from the ranks' logs.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/lab/command.h"

namespace r2ccl::lab_tests {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kByManagement = "Control goes from NIC (any NIC)";
constexpr const char* kPerf = "perf all_reduce -w 0 -b 4M -e 4M";

struct Ended {
  int status = 0;
  std::string log;  // of all ranks
};

// Runs a job whose ranks find these variables (NAME=value, separated by blanks), each by the shell line with the tool
// as $0.
Ended run_ranks(const std::string& options, const std::string& variables, const std::string& line) {
  const std::string name = fresh_name();
  const std::vector<std::string> before = traces(name);
  const auto errors = std::filesystem::temp_directory_path() / (name + ".err");
  const Ran ran = tool(fmt::format("lab run --name {} {} -- env NCCL_DEBUG=INFO {} sh -c '{}' {} 2>{}", name, options,
                                   variables, line, tool_path(), errors.string()));
  std::stringstream text;
  text << std::ifstream(errors).rdbuf();
  std::filesystem::remove(errors);
  EXPECT_EQ(traces(name), before);
  return {ran.status, ran.out + text.str()};
}

Ended run_perf(const std::string& options, const std::string& variables, int rounds = 2) {
  return run_ranks(options, variables, fmt::format("exec $0 {} -n {}", kPerf, rounds));
}

void expect_right(const Ended& ended) {
  EXPECT_EQ(ended.status, 0) << ended.log;
  EXPECT_THAT(ended.log, HasSubstr("Wrong values        : 0 OK"));
}

std::size_t times(const std::string& what, const std::string& text) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

bool has_ipv6() {
  return std::filesystem::exists("/proc/net/if_inet6");
}

TEST(LabMeeting, AManagementNetworkCarriesControlAndNoData) {
  for (const char* nics : {"R2CCL_NICS=eth0,eth1", "R2CCL_NICS= NCCL_SOCKET_IFNAME=eth"}) {
    const Ended ended =
        run_ranks("--servers 2 --ranks 2", fmt::format("MASTER_ADDR=10.250.0.1 {}", nics),
                  fmt::format("$0 {} -n 2 && echo sent $(cat /sys/class/net/mgmt0/statistics/tx_bytes) >&2", kPerf));
    expect_right(ended);
    EXPECT_EQ(times(fmt::format("{} to 10.250.0.1:", kByManagement), ended.log), 3u) << ended.log;
    EXPECT_EQ(times("sent ", ended.log), 4u) << ended.log;
    for (auto at = ended.log.find("sent "); at != std::string::npos; at = ended.log.find("sent ", at + 1))
      EXPECT_LT(std::stoul(ended.log.substr(at + 5)), 100'000u) << "bytes on the management network";
  }
}

// Nobody has said that the management network must carry no data, so it is a NIC like the others.
TEST(LabMeeting, WithoutNamedNicsEveryNetworkIsANic) {
  const Ended ended = run_perf("--servers 2", "MASTER_ADDR=10.250.0.1 R2CCL_NICS=");
  expect_right(ended);
  EXPECT_THAT(ended.log, HasSubstr("Control goes from NIC mgmt0 to 10.250.0.1:"));
}

TEST(LabMeeting, AnyDataNicOfRankZeroWillDo) {
  const Ended ended = run_perf("--servers 2 --fabric rails", "MASTER_ADDR=10.11.0.1");
  expect_right(ended);
  EXPECT_THAT(ended.log, HasSubstr("Control goes from NIC eth1 to 10.11.0.1:"));
}

TEST(LabMeeting, IPv6NeedsNoIPv4) {
  if (!has_ipv6()) GTEST_SKIP() << "this kernel has no IPv6";
  const struct {
    const char* place;
    const char* way;
  } cases[] = {{"MASTER_ADDR=fd00:0:0:a::1", "Control goes from NIC eth0 to [fd00:0:0:a::1]:"},
               {"MASTER_ADDR=fd00:0:0:fa::1", "Control goes from NIC (any NIC) to [fd00:0:0:fa::1]:"},
               {"MASTER_ADDR=fe80::fa:1%mgmt0", "Control goes from NIC (any NIC) to [fe80::fa:1%mgmt0]:"},
               {"MASTER_ADDR=fe80::a:1%eth0", "Control goes from NIC (any NIC) to [fe80::a:1%eth0]:"},
               {"MASTER_ADDR=fe80::a:1", "Control goes from NIC eth0 to [fe80::a:1]:"},
               {"NCCL_COMM_ID=[fe80::fa:1%mgmt0]:5000", "Control goes from NIC (any NIC) to [fe80::fa:1%mgmt0]:5000"}};
  for (const auto& [place, way] : cases) {
    const Ended ended = run_perf("--servers 2 --ipv6", place);
    expect_right(ended);
    EXPECT_THAT(ended.log, HasSubstr(way)) << place;
  }
}

TEST(LabMeeting, ACableOfIPv6IsPulledAndPutBack) {
  if (!has_ipv6()) GTEST_SKIP() << "this kernel has no IPv6";
  const Ended ended =
      run_perf("--servers 2 --ipv6 --fault 'at=op:3 server=0 nic=1 kind=down for=300ms'", "MASTER_ADDR=server0", 30);
  expect_right(ended);
  EXPECT_THAT(ended.log, HasSubstr("server 0 nic 1: down is over"));
}

TEST(LabMeeting, HostNamesAreLookedUp) {
  for (const char* family : {"", "--ipv6"}) {
    if (*family != 0 && !has_ipv6()) continue;
    for (const char* place : {"MASTER_ADDR=server0-mgmt", "MASTER_ADDR=server0", "NCCL_COMM_ID=server0-mgmt:5000"})
      expect_right(run_perf(fmt::format("--servers 2 {}", family), place));
  }
}

// As on Debian: a server's own name is a loopback address to itself, and to nobody else.
TEST(LabMeeting, AServerMayKnowItsOwnNameByALoopbackAddress) {
  for (const char* nics : {"R2CCL_NICS=eth0,eth1", "R2CCL_NICS="}) {
    const Ended ended =
        run_ranks("--servers 2", fmt::format("MASTER_ADDR=server0-mgmt {}", nics),
                  fmt::format("[ $RANK != 0 ] || echo 127.0.1.1 server0-mgmt > /etc/hosts; exec $0 {} -n 2", kPerf));
    expect_right(ended);
    EXPECT_THAT(ended.log, HasSubstr(" to 10.250.0.1:"));
  }
}

TEST(LabMeeting, AnAddressOfAnotherServerIsRefusedWithASentence) {
  const Ended ended =
      run_ranks("--servers 2", "MASTER_ADDR=10.250.0.2", fmt::format("[ $RANK = 0 ] || exit 0; exec $0 {}", kPerf));
  EXPECT_NE(ended.status, 0);
  EXPECT_THAT(ended.log, HasSubstr("the ranks are to meet at 10.250.0.2, port "));
}

// 4 MiB take 33 ms at least, so the ranks are at work from the cut to long after it is over.
TEST(LabMeeting, ControlLeavesAManagementNetworkThatIsCutForTenSecondsAndComesBack) {
  const Ended ended = run_perf("--servers 2 --rate 500mbit --fault 'at=op:5 server=0 nic=mgmt kind=cable for=10s'",
                               "MASTER_ADDR=10.250.0.1", 220);
  expect_right(ended);
  EXPECT_THAT(ended.log, HasSubstr("server 0 nic mgmt: cable"));
  const auto over = ended.log.find("server 0 nic mgmt: cable is over");
  ASSERT_NE(over, std::string::npos) << ended.log;
  const auto moved = ended.log.find("Control goes from NIC eth0 to 10.10.0.1:");
  EXPECT_LT(moved, over) << ended.log;
  EXPECT_NE(ended.log.find(kByManagement, over), std::string::npos) << ended.log;
  EXPECT_EQ(times("Control goes ", ended.log), 3u) << ended.log;
}

// Rank 2 is killed long after. The root, which heard of it over a data NIC, says that it is gone.
TEST(LabMeeting, ControlWorksOnWithoutTheManagementNetworkForGood) {
  const Ended ended =
      run_ranks("--servers 3 --fault 'at=op:5 server=0 nic=mgmt kind=blackhole'", "MASTER_ADDR=10.250.0.1",
                fmt::format("[ $RANK != 2 ] || exec timeout -s KILL 8 $0 {0} -n 1000; exec $0 {0} -n 1000", kPerf));
  EXPECT_NE(ended.status, 0);
  EXPECT_EQ(times("Control goes from NIC eth0 to 10.10.0.1:", ended.log), 2u) << ended.log;
  EXPECT_EQ(times("Control connection of rank 1 ", ended.log), 1u) << "with the network" << ended.log;
  EXPECT_EQ(times("Control connection of rank 2 ", ended.log), 2u) << "with the network, and by its death" << ended.log;
  for (const char* survivor : {"r2ccl perf: ", "[1] r2ccl perf: "}) EXPECT_THAT(ended.log, HasSubstr(survivor));
}

TEST(LabMeeting, ControlLeavesADataNicThatIsCut) {
  const Ended ended = run_perf("--servers 2 --fabric rails --rate 500mbit --fault 'at=op:5 server=0 nic=1 kind=cable'",
                               "MASTER_ADDR=10.11.0.1", 50);
  expect_right(ended);
  EXPECT_THAT(ended.log, HasSubstr("Control goes from NIC eth1 to 10.11.0.1:"));
  EXPECT_THAT(ended.log, HasSubstr("Control goes from NIC eth0 to 10.10.0.1:"));
  EXPECT_THAT(ended.log, Not(HasSubstr(kByManagement)));
}

}  // namespace
}  // namespace r2ccl::lab_tests
