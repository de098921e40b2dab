#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/r2ccl/lab/lab_faults.h"
#include "apps/r2ccl/lab/lab_run.h"
#include "process/launched_by.h"
#include "testing/test_console.h"

namespace r2ccl::apps {
namespace {

using testing::HasSubstr;

LabRunOptions two_by_two() {
  LabRunOptions options;
  options.lab = {.name = "x", .servers = 2, .nics = 3, .fabric = Fabric::kRails};
  options.plan.servers = 2;
  options.plan.ranks = 2;
  options.plan.nics = 3;
  options.plan.faults = {"at=1s server=0 nic=1 kind=down"};
  return options;
}

TEST(LabRun, ARankFindsItsInterfacesAndThePlaceToMeet) {
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    const std::vector<std::string> lines = lab_environment(two_by_two(), {1234, "s"}, rank);
    const std::vector<std::string_view> views(lines.begin(), lines.end());
    const auto launch = find_launch(views).value();
    ASSERT_TRUE(launch);
    EXPECT_EQ(launch->rank, rank);
    EXPECT_EQ(launch->size, 4u);
    EXPECT_EQ(launch->local_rank, rank % 2);
    EXPECT_EQ(launch->host, "10.10.0.1") << "the first NIC of rank 0";
    const Settings settings = Settings::parse(views).value();
    EXPECT_EQ(settings.nics, (std::vector<std::string>{"eth0", "eth1", "eth2"}));
    EXPECT_EQ(settings.server, rank / 2);
    EXPECT_EQ(settings.fabric, "rails");
    EXPECT_EQ(settings.fault, "") << "faults of a lab are real";
    EXPECT_EQ(settings.nic_speed_bytes_s, two_by_two().lab.rate_bytes_s) << "a veth tells another";
  }
}

TEST(LabFaults, OnlyThoseThatCanBeMadeAreTaken) {
  const lab::LabPlan plan{.servers = 2, .nics = 2};
  EXPECT_EQ(lab_faults({"at=1s server=1 nic=1 kind=down", "at=op:3 server=0 nic=0 kind=reset"}, plan).value().size(),
            2u);
  const auto what = [&plan](const char* text) { return lab_faults({text}, plan).error().what; };
  EXPECT_THAT(what("at=1s server=2 nic=1 kind=down"), HasSubstr("2 servers with 2 NICs"));
  EXPECT_THAT(what("at=1s server=1 nic=2 kind=down"), HasSubstr("2 servers with 2 NICs"));
  EXPECT_THAT(what("at=1s server=1 nic=1 kind=fire"), HasSubstr("fire"));
}

TEST(LabFaults, TheManagementNetworkHasAName) {
  const lab::LabPlan plan{.servers = 2, .nics = 2};
  const auto faults =
      lab_faults({"at=1s server=1 nic=mgmt kind=cable for=2s;at=2s nic=mgmt server=0 kind=blackhole"}, plan).value();
  ASSERT_EQ(faults.size(), 2u);
  for (const FaultSpec& fault : faults) EXPECT_EQ(fault.nic, plan.management());
  EXPECT_THAT(lab_faults({"at=1s server=1 nic=mgmt kind=slow:1mbit"}, plan).error().what, HasSubstr("no rate"));
}

TEST(Lab, WithoutRootEveryCommandSaysSo) {
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setuid(kNobody) != 0) _exit(90);
    int command = 1;
    for (const std::vector<std::string>& line :
         std::vector<std::vector<std::string>>{{"lab", "up"},
                                               {"lab", "down"},
                                               {"lab", "status"},
                                               {"lab", "heal"},
                                               {"lab", "fail", "server=0", "nic=0", "kind=cable"},
                                               {"lab", "exec", "--", "true"},
                                               {"lab", "run", "--", "true"}}) {
      TestConsole console;
      if (run_command_line(line, {console, {}}) != kExitUsage) _exit(command);
      if (console.err_text.find("network namespaces need root") == std::string::npos) _exit(command);
      ++command;
    }
    _exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the number of the command that did not";
}

}  // namespace
}  // namespace r2ccl::apps
