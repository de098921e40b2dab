// Labs come and go, and whatever happens to them nothing of them stays.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lab/net_namespace.h"
#include "tests/lab/command.h"

namespace r2ccl::lab_tests {
namespace {

using testing::HasSubstr;

TEST(LabLife, UpStatusAndDownLeaveNothingBehind) {
  const std::string name = fresh_name();
  const std::vector<std::string> before = traces(name);
  const Ran up = tool(fmt::format("lab up --name {} --servers 3 --nics 2 --rate 100mbit 2>&1", name));
  ASSERT_EQ(up.status, 0) << up.out;
  EXPECT_EQ(traces(name).size(), before.size() + 4 + 4 + 1) << "namespaces and mounts, three servers' and the switch's";
  const Ran status = tool(fmt::format("lab status --name {} --json", name));
  const auto object = apps::parse_json(status.out);
  ASSERT_TRUE(object.is_object()) << status.out;
  ASSERT_EQ(object["labs"][0]["nics"].size(), 6u);
  for (const auto& nic : object["labs"][0]["nics"]) {
    EXPECT_EQ(nic["state"], "ok");
    EXPECT_EQ(nic["carrier"], true);
    EXPECT_EQ(nic["rate_bytes_s"], 12'500'000);
  }
  const Ran again = tool(fmt::format("lab up --name {} 2>&1", name));
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.out, HasSubstr("already"));
  const Ran down = tool(fmt::format("lab down --name {} 2>&1", name));
  EXPECT_EQ(down.status, 0) << down.out;
  EXPECT_EQ(traces(name), before);
  const Ran gone = tool(fmt::format("lab status --name {} 2>&1", name));
  EXPECT_EQ(gone.status, 2);
  EXPECT_THAT(gone.out, HasSubstr("there is no lab"));
}

TEST(LabLife, TwoLabsLiveSideBySide) {
  const Lab one("--servers 2 --nics 1");
  const Lab other("--servers 2 --nics 1 --fabric rails");
  one.command("fail", "server=0 nic=0 kind=down");
  EXPECT_EQ(one.nic(0, 0)["state"], "down");
  EXPECT_EQ(other.nic(0, 0)["state"], "ok");
}

// Starts programs as mpirun does on a server of a lab.
TEST(LabLife, AServerIsEnteredFromInsideAnother) {
  const Lab lab("--servers 2 --nics 1");
  const std::string enter = fmt::format("{} lab exec --name {} --server", tool_path(), lab.name());
  const Ran ran = shell(fmt::format("{0} 0 -- {0} 1 -- {0} 0 -- grep -c server1 /etc/hosts 2>&1", enter));
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_EQ(ran.out, "2\n") << "its first NIC and its address on the management network";
}

TEST(LabLife, ForeignNamespacesAreNotTouched) {
  const std::string name = fresh_name();
  const std::string foreign = fmt::format("r2ccl-{}-s1", name);
  ASSERT_TRUE(lab::make_namespace(foreign));
  for (const char* command : {"up --servers 2", "run --servers 2 -- true", "down"}) {
    std::string line = fmt::format("lab {} 2>&1", command);
    line.insert(line.find(' ', 4), fmt::format(" --name {}", name));
    const Ran ran = tool(line);
    EXPECT_EQ(ran.status, 2) << line << ": " << ran.out;
    EXPECT_TRUE(lab::namespace_exists(foreign)) << command;
    const auto fd = lab::open_namespace(foreign);
    EXPECT_TRUE(fd && lab::is_namespace(*fd)) << command;
  }
  EXPECT_TRUE(lab::remove_namespace(foreign));
}

TEST(LabLife, DownEndsWhatRunsInside) {
  pid_t inside = 0;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    const Lab lab("--servers 1 --nics 1");
    inside = ::fork();
    if (inside == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::execl(tool_path().c_str(), "r2ccl", "lab", "exec", "--name", lab.name().c_str(), "--", "sh", "-c",
              "echo r; exec sleep 1000", nullptr);
      _exit(127);
    }
    ::close(ends[1]);
    char byte = 0;
    EXPECT_EQ(::read(ends[0], &byte, 1), 1) << "it runs inside";
  }
  int raw = 0;
  ASSERT_EQ(::waitpid(inside, &raw, 0), inside);
  EXPECT_TRUE(WIFSIGNALED(raw) && WTERMSIG(raw) == SIGKILL);
  ::close(ends[0]);
}

TEST(LabLife, EveryEndingSignalCleansUp) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    const std::string name = fresh_name();
    const std::vector<std::string> before = traces(name);
    LongRun run(name);
    ASSERT_TRUE(run.ranks_run());
    run.signal(number);
    EXPECT_EQ(run.wait(), 128 + number);
    EXPECT_EQ(traces(name), before);
  }
}

// The lab's keeper hears of it and removes the lab; `down` waits for that.
TEST(LabLife, AKilledRunIsRemovedByItsKeeper) {
  const std::string name = fresh_name();
  const std::vector<std::string> before = traces(name);
  LongRun run(name);
  ASSERT_TRUE(run.ranks_run());
  run.signal(SIGKILL);
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries && traces(name) != before; ++i) ::poll(nullptr, 0, 20);
  EXPECT_EQ(traces(name), before);
}

TEST(LabLife, WhatAKilledRunAndKeeperLeaveIsRemovedByDown) {
  const std::string name = fresh_name();
  const std::vector<std::string> before = traces(name);
  LongRun run(name);
  ASSERT_TRUE(run.ranks_run());
  run.signal_all(SIGKILL);
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  EXPECT_NE(traces(name), before) << "nobody was left to clean up";
  const Ran down = tool(fmt::format("lab down --name {} 2>&1", name));
  EXPECT_EQ(down.status, 0) << down.out;
  EXPECT_EQ(traces(name), before);
}

TEST(LabLife, WhatAKilledRunAndKeeperLeaveIsRemovedByTheNextRun) {
  const std::string name = fresh_name();
  const std::vector<std::string> before = traces(name);
  LongRun run(name);
  ASSERT_TRUE(run.ranks_run());
  run.signal_all(SIGKILL);
  run.wait();
  const Ran next = tool(fmt::format("lab run --name {} --servers 2 --nics 1 -- true 2>&1", name));
  EXPECT_EQ(next.status, 0) << next.out;
  EXPECT_EQ(traces(name), before);
}

TEST(LabLife, ARunThatIsAliveIsNotTakenAway) {
  const std::string name = fresh_name();
  LongRun run(name);
  ASSERT_TRUE(run.ranks_run());
  const Ran second = tool(fmt::format("lab run --name {} -- true 2>&1", name));
  EXPECT_NE(second.status, 0);
  EXPECT_THAT(second.out, HasSubstr("in use by process"));
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 128 + SIGTERM) << "unharmed until then";
}

TEST(LabLife, TheStatusOfARunIsThatOfItsRanks) {
  EXPECT_EQ(tool(fmt::format("lab run --name {} --nics 1 -- true", fresh_name())).status, 0);
  EXPECT_EQ(tool(fmt::format("lab run --name {} --nics 1 -- sh -c 'exit 7'", fresh_name())).status, 7);
  const std::string name = fresh_name();
  const Ran none = tool(fmt::format("lab run --name {} --nics 1 -- /no/such/program 2>&1", name));
  EXPECT_EQ(none.status, 127);
  EXPECT_THAT(none.out, HasSubstr("can not be started"));
}

}  // namespace
}  // namespace r2ccl::lab_tests
