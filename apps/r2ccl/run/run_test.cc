#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/r2ccl/perf/perf_faults.h"
#include "apps/r2ccl/run/run_children.h"
#include "apps/r2ccl/run/run_plan.h"
#include "process/launched_by.h"

namespace r2ccl::apps {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST(RunPlan, EveryRankFindsItsPlaceAndServersHaveTheirOwnNics) {
  RunPlan plan;
  plan.servers = 2;
  plan.ranks = 3;
  plan.nics = 2;
  plan.faults = {"at=1s server=0 nic=1 kind=down", "at=2s server=1 nic=0 kind=reset"};
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    const std::vector<std::string> lines = rank_environment(plan, {1234, "s"}, rank);
    const std::vector<std::string_view> views(lines.begin(), lines.end());
    const auto launch = find_launch(views).value();
    ASSERT_TRUE(launch);
    EXPECT_EQ(launch->launcher, "r2ccl run");
    EXPECT_EQ(launch->rank, rank);
    EXPECT_EQ(launch->size, 6u);
    EXPECT_EQ(launch->local_rank, rank % 3);
    EXPECT_EQ(launch->host, "127.10.0.1");
    EXPECT_EQ(launch->port, port_beside(1234));
    const Settings settings = Settings::parse(views).value();
    EXPECT_EQ(settings.server, rank / 3);
    const std::string last = rank < 3 ? "1" : "2";
    EXPECT_EQ(settings.nics, (std::vector<std::string>{"127.10.0." + last, "127.11.0." + last}));
    EXPECT_EQ(settings.fault, "at=1s server=0 nic=1 kind=down;at=2s server=1 nic=0 kind=reset");
    EXPECT_THAT(lines, Contains("RANK=" + std::to_string(rank)));
    EXPECT_THAT(lines, Contains("MASTER_PORT=1234"));
  }
}

TEST(RunPlan, AMeetingIsArrangedAnew) {
  const RunMeeting first = arrange_meeting().value();
  const RunMeeting second = arrange_meeting().value();
  EXPECT_NE(first.secret, second.secret);
  EXPECT_GE(first.secret.size(), 32u);
}

// ---- processes --------------------------------------------------------------------------------------------------

TEST(RunChildren, TheStatusIsThatOfTheFirstThatFailed) {
  EXPECT_EQ(run_children(3, [](std::uint32_t) { return 0; }).value(), 0);
  EXPECT_EQ(run_children(3, [](std::uint32_t rank) { return rank == 1 ? 7 : 0; }).value(), 7);
  EXPECT_EQ(run_children(2, [](std::uint32_t rank) { return rank == 1 ? ::raise(SIGKILL) : 0; }).value(),
            128 + SIGKILL);
}

TEST(RunChildren, TheOthersAreEndedWhenOneFails) {
  const auto body = [](std::uint32_t rank) {
    if (rank == 2) return 9;
    for (;;) ::pause();
  };
  EXPECT_EQ(run_children(3, body, {.grace = 20ms, .term_max = 2s}).value(), 9);
}

TEST(RunChildren, ThoseThatIgnoreTheEndAreKilled) {
  const auto body = [](std::uint32_t rank) {
    if (rank == 1) return 4;
    ::signal(SIGTERM, SIG_IGN);
    for (;;) ::pause();
  };
  EXPECT_EQ(run_children(2, body, {.grace = 20ms, .term_max = 20ms}).value(), 4);
}

TEST(RunChildren, ASignalToTheParentEndsAll) {
  const pid_t parent = getpid();
  const auto body = [parent](std::uint32_t rank) {
    if (rank == 0) ::kill(parent, SIGINT);
    for (;;) ::pause();
    return 0;
  };
  EXPECT_EQ(run_children(2, body).value(), 128 + SIGINT);
}

TEST(RunChildren, OnlyOtherRanksErrorsArePrefixed) {
  testing::internal::CaptureStderr();
  const auto body = [](std::uint32_t rank) {
    const std::string text = rank == 2 ? "one\ntwo" : "hello\n";  // without its last newline
    return ::write(STDERR_FILENO, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1;
  };
  EXPECT_EQ(run_children(3, body).value(), 0);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("[1] hello\n"));
  EXPECT_THAT(text, HasSubstr("[2] one\n"));
  EXPECT_THAT(text, HasSubstr("[2] two\n"));
  EXPECT_THAT("\n" + text, HasSubstr("\nhello\n"));
  EXPECT_EQ(text.size(), 6u + 10u + 8u + 8u);
}

// The children hold the writing end of a pipe: it ends when the last of them does.
TEST(RunChildren, NoneSurvivesThisProcess) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    const auto body = [&](std::uint32_t) {
      if (::write(ends[1], "x", 1) != 1) return 1;
      for (;;) ::pause();
    };
    _exit(run_children(3, body).value_or(1));
  }
  ::close(ends[1]);
  char byte = 0;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(::read(ends[0], &byte, 1), 1);
  ::kill(launcher, SIGKILL);
  pollfd entry{.fd = ends[0], .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&entry, 1, 20'000), 1);
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);
  ::waitpid(launcher, nullptr, 0);
  ::close(ends[0]);
}

// ---- faults -----------------------------------------------------------------------------------------------------

ProcessInfo process(std::uint64_t id, std::uint64_t server) {
  ProcessInfo info;
  info.process = {id};
  info.server = {server};
  return info;
}

Event event(EventKind kind, std::int64_t at_ms, std::uint8_t low = 0, std::uint8_t high = 0) {
  Event one;
  one.kind = kind;
  one.at = Instant(std::chrono::milliseconds(at_ms));
  one.path = {NicId{low}, NicId{high}};
  one.peer = {20};
  return one;
}

TEST(PerfFaults, AFaultIsToldFromItsEvents) {
  const Instant start(1s);
  FaultWatch watch(process(10, 0), {process(10, 0), process(20, 1)}, start);
  Event injected = event(EventKind::kFaultInjected, 1100);
  injected.extra = 1;
  watch.on_event(injected);
  Event down = event(EventKind::kPathDown, 1104, 1, 1);
  down.bytes = 5000;
  watch.on_event(down);
  Event replayed = event(EventKind::kChunkReplayed, 1106);
  replayed.bytes = 5000;
  watch.on_event(replayed);
  watch.on_event(event(EventKind::kFenceReceived, 1106, 1, 1));
  watch.on_event(event(EventKind::kPathDown, 1200, 1, 1));
  watch.on_event(event(EventKind::kFenceReceived, 1300, 1, 1));  // carried nothing: nobody waited for it
  watch.on_event(event(EventKind::kPathTrusted, 1900, 1, 1));
  watch.on_event(event(EventKind::kPathTrusted, 1901, 0, 0));  // never in trouble
  const std::vector<FaultSpec> specs = parse_faults("at=100ms server=0 nic=1 kind=cable").value();
  FactsByNic facts = watch.facts({{.blame = Blame::kNic, .culprit = {ServerId{0}, NicId{1}}, .other = {}, .why = ""}});
  facts = facts_from(facts_text(facts));
  const std::vector<FaultRow> rows = fault_rows(facts, specs);
  ASSERT_EQ(rows.size(), 1u) << "the other end is not to blame";
  const Json object = to_json(rows[0]);
  EXPECT_EQ(object["server"], 0);
  EXPECT_EQ(object["nic"], 1);
  EXPECT_EQ(object["kind"], "cable");
  EXPECT_EQ(object["verdict"], to_text(Blame::kNic));
  EXPECT_EQ(object["at_ms"], 100);
  EXPECT_EQ(object["noticed_ms"], 104);
  EXPECT_EQ(object["repaired_ms"], 106);
  EXPECT_EQ(object["stall_ms"], 6);
  EXPECT_EQ(object["resent_bytes"], 5000);
  EXPECT_EQ(object["returned_ms"], 900);
  EXPECT_EQ(fault_line(rows[0]),
            "# fault: server 0 nic 1, cable, 100 ms after the start; noticed 4 ms later, repaired 6 ms later, 4.88 KiB "
            "resent; verdict NIC; back 800 ms later\n");
}

TEST(PerfFaults, WhatRanksSawIsPutTogether) {
  NicFacts here{.at = 500, .troubles = {9, 509}, .fences = {10, 512}, .resent_bytes = 1};
  here.merge({.troubles = {507, 9000},
              .fences = {520, 9001},
              .trusted = 3000,
              .resent_bytes = 2,
              .verdict = "NIC",
              .blamed = true});
  EXPECT_EQ(here.at, 500);
  EXPECT_EQ(here.noticed(), 507) << "not what was before the fault";
  EXPECT_EQ(here.repaired(), 520) << "nor what came long after it";
  EXPECT_EQ(here.returned(), 3000);
  EXPECT_EQ(here.resent_bytes, 3u);
  EXPECT_EQ(here.verdict, "NIC");
  EXPECT_EQ((NicFacts{.at = 500, .troubles = {507}, .idle_fences = {530}}.repaired()), 530) << "nothing was under way";
  NicFacts early{.at = 500, .troubles = {495}};
  EXPECT_EQ(early.noticed(), 500) << "ranks do not start at the very same moment";
  EXPECT_EQ(early.repaired(), std::nullopt);
  EXPECT_EQ(NicFacts{.at = 500}.noticed(), std::nullopt);
}

TEST(PerfFaults, AFaultNobodyInjectedIsAVerdict) {
  FactsByNic facts;
  facts[{ServerId{3}, NicId{1}}] = {.troubles = {2}, .verdict = "NIC", .blamed = true};
  facts[{ServerId{3}, NicId{2}}] = {.troubles = {2}, .verdict = "transient"};
  const std::vector<FaultRow> rows = fault_rows(facts, {});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].kind, "unknown");
  EXPECT_EQ(to_json(rows[0])["noticed_ms"], 2);
  EXPECT_EQ(to_json(rows[0])["at_ms"], nullptr);
}

}  // namespace
}  // namespace r2ccl::apps
