#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "apps/r2ccl/common/child.h"
#include "apps/r2ccl/common/command.h"
#include "apps/r2ccl/common/json.h"
#include "apps/r2ccl/common/pattern.h"
#include "apps/r2ccl/common/table.h"
#include "apps/r2ccl/perf/bare_link.h"
#include "apps/r2ccl/perf/bench_report.h"
#include "schedule/check/check.h"
#include "schedule/text/text.h"
#include "testing/test_console.h"

namespace r2ccl::apps {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

struct Ran {
  int status;
  std::string out, err;
};

Ran run(std::vector<std::string> arguments, std::vector<std::string_view> environment = {}) {
  TestConsole console;
  const int status = run_command_line(arguments, {console, std::move(environment)});
  return {status, console.out_text, console.err_text};
}

// ---- the command line -------------------------------------------------------------------------------------------

TEST(CommandLine, BadInputExitsWith2AndOneLine) {
  const std::vector<std::vector<std::string>> lines{
      {},
      {"bogus"},
      {"fuzz-net", "--seeds", "many"},
      {"fuzz-net", "--seeds", "0"},
      {"fuzz-net", "--seeds"},
      {"fuzz-net", "--colour"},
      {"fuzz-net", "--break", "the bank"},
      {"fuzz-net", "--trace"},
      {"bench-link", "--message", "4X"},
      {"bench-link", "--paths", "0"},
      {"demo", "--rate", "fast"},
      {"demo", "--seconds", "-1"},
      {"demo", "--fault", "at=1s"},
      {"demo", "--fault", "at=1s server=9 nic=0 kind=cable"},
      {"demo", "--fault", "at=op:3 server=0 nic=0 kind=cable"},
      {"plan", "all_to_some"},
      {"plan", "--bytes", "1X"},
      {"plan", "--rate", "quick"},
      {"plan", "--servers", "0"},
      {"plan", "--servers", "4096", "--gpus", "64"},
      {"plan", "--lost", "4:0"},
      {"plan", "--lost", "0:8"},
      {"plan", "--lost", "0"},
      {"plan", "--nics", "2", "--lost", "1:0", "--lost", "1:1"},
      {"plan", "--slow", "0:0"},
      {"plan", "--slow", "0:0:2"},
      {"plan", "--fabric", "carrier-pigeon"},
      {"plan", "--algo", "magic"},
      {"plan", "--algo", "optcc", "--lost", "0:0", "--lost", "1:0"},
      {"plan", "broadcast", "--root", "99"},
      {"plan", "--print", "--algo", "all"},
      {"sim", "--mode", "wishful"},
      {"sim", "--at", "1ms"},
      {"sim", "--at", "soon", "--lost", "0:0"},
      {"sim", "--random", "29"},
      {"sim", "--random", "1", "--algo", "all"},
      {"sim", "--lost", "0:0", "--at", "1ms", "--mode", "one-port"},
      {"sim", "--timeline", "/nowhere/at/all.json", "--servers", "2", "--bytes", "1M"},
      {"sim", "sweep", "--family", "flat"},
      {"sim", "papers", "--table", "Nature"},
  };
  for (const auto& line : lines) {
    const Ran ran = run(line);
    EXPECT_EQ(ran.status, kExitUsage) << testing::PrintToString(line);
    EXPECT_EQ(ran.out, "") << testing::PrintToString(line);
    EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
    EXPECT_THAT(ran.err, testing::StartsWith("r2ccl")) << ran.err;
  }
}

// The first word of each line behind "Subcommands:".
std::vector<std::string> commands_of_the_help() {
  std::istringstream lines(run({"--help"}).out);
  std::vector<std::string> names;
  bool listed = false;
  for (std::string line; std::getline(lines, line);) {
    std::string name;
    if (listed && std::istringstream(line) >> name) names.push_back(name);
    listed |= line == "Subcommands:";
  }
  return names;
}

TEST(CommandLine, AWrongCommandIsNamedBesideTheRightOnes) {
  const std::vector<std::string> commands = commands_of_the_help();
  EXPECT_THAT(commands, testing::IsSupersetOf({"run", "perf", "status"}));
  EXPECT_EQ(run({"bogus"}).err,
            fmt::format("r2ccl: there is no command 'bogus'; there are {}\n", fmt::join(commands, ", ")));
  for (const std::string& command : commands) EXPECT_EQ(run({command, "--help"}).status, kExitOk) << command;
}

// ---- plan and sim -----------------------------------------------------------------------------------------------

Json json_of(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Ran ran = run(std::move(arguments));
  EXPECT_EQ(ran.status, kExitOk) << ran.err;
  return parse_json(ran.out);
}

TEST(PlanCommand, JsonHasTheKeysScriptsRelyOn) {
  const Json object =
      json_of({"plan", "--servers", "4", "--nics", "4", "--lost", "0:1", "--bytes", "64M", "--algo", "all"});
  for (const char* key :
       {"bound_s", "one_port_bound_s", "healthy_ring_s", "healthy_flat_ring_s", "algorithms", "chosen", "crossovers"}) {
    EXPECT_TRUE(object.contains(key)) << key;
  }
  std::size_t proven = 0;
  for (const Json& row : object["algorithms"]) {
    if (!row["checked"]) continue;
    ++proven;
    for (const char* key : {"name", "time_s", "healthy_ratio", "bound_ratio", "steps", "scratch_bytes"})
      EXPECT_TRUE(row.contains(key)) << key;
    EXPECT_GE(row["bound_ratio"], 0.999) << row["name"];
  }
  EXPECT_GE(proven, 10u);
  EXPECT_EQ(object["chosen"], "weighted_direct");
}

TEST(PlanCommand, SmallMessagesCrossOverToALatencyAlgorithm) {
  const Json sizes = json_of({"plan", "--servers", "8", "--lost", "0:1"})["crossovers"];
  ASSERT_GE(sizes.size(), 2u);
  EXPECT_NE(sizes.front()["algorithm"], sizes.back()["algorithm"]);
  EXPECT_EQ(sizes.back()["algorithm"], "weighted_direct");
}

TEST(PlanCommand, PrintShowsAScheduleThatParses) {
  const Ran ran = run({"plan", "--servers", "3", "--nics", "2", "--bytes", "1M", "--algo", "balance", "--print"});
  EXPECT_EQ(ran.status, kExitOk);
  const Result<Schedule> schedule = parse_schedule(ran.out);
  ASSERT_TRUE(schedule) << schedule.error().what;
  EXPECT_TRUE(check(*schedule));
}

TEST(SimCommand, AFaultInsideCostsLessThanTheSameFaultBefore) {
  const auto time = [](std::vector<std::string> more) {
    std::vector<std::string> line{"sim", "--servers", "4", "--nics", "4", "--algo", "balance", "--bytes", "4G"};
    line.insert(line.end(), more.begin(), more.end());
    return json_of(line)["algorithms"][0]["time_s"].get<double>();
  };
  const double healthy = time({});
  const double before = time({"--lost", "0:1"});
  const double inside = time({"--lost", "0:1", "--at", "20ms"});
  EXPECT_GT(inside, healthy);
  EXPECT_LT(inside, before + 0.005);
}

TEST(SimCommand, RandomSamplesAreRepeatable) {
  const auto samples = [] {
    return json_of({"sim", "--servers", "6", "--random", "3", "--samples", "5", "--seed", "7", "--bytes", "256M"});
  };
  const Json first = samples();
  EXPECT_EQ(first["samples"].size(), 5u);
  EXPECT_EQ(first["samples"], samples()["samples"]);
  for (const char* key : {"mean", "p50", "p99", "max"}) EXPECT_TRUE(first["summary"].contains(key)) << key;
  EXPECT_EQ(first["mode"], "multi-port");
}

TEST(SimCommand, TheTimelineIsATraceOfEveryNic) {
  const std::string path = testing::TempDir() + "r2ccl_timeline.json";
  EXPECT_EQ(run({"sim", "--servers", "3", "--nics", "2", "--bytes", "8M", "--timeline", path}).status, kExitOk);
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const Json events = parse_json(text.str());
  ASSERT_TRUE(events.is_array());
  std::set<std::pair<int, int>> ports;
  for (const Json& event : events) {
    if (event["ph"] == "X") ports.insert({event["pid"].get<int>(), event["tid"].get<int>()});
  }
  EXPECT_EQ(ports.size(), 3u * 2 * 2);
}

TEST(CommandLine, HelpGoesToOutputAndSucceeds) {
  for (const std::string command : {"demo", "plan", "sim", "bench-link", "fuzz-net", "settings"}) {
    const Ran ran = run({command, "--help"});
    EXPECT_EQ(ran.status, kExitOk);
    EXPECT_THAT(ran.out, HasSubstr("--json"));
    EXPECT_EQ(ran.err, "");
  }
}

TEST(CommandLine, AMisspeltSettingIsRefusedByEveryCommandThatReadsThem) {
  for (const std::string command : {"demo", "bench-link", "settings"}) {
    const Ran ran = run({command}, {"R2CCL_SPINN=1ms"});
    EXPECT_EQ(ran.status, kExitUsage);
    EXPECT_THAT(ran.err, HasSubstr("R2CCL_SPIN?"));
  }
}

TEST(SettingsCommand, ListsDefaultsAndShowsWhatTheEnvironmentChanges) {
  EXPECT_THAT(run({"settings"}).out, ContainsRegex("R2CCL_PEER_TIMEOUT +60s"));
  const Ran changed = run({"settings", "--json"}, {"R2CCL_PEER_TIMEOUT=5s"});
  const Json rows = Json::parse(changed.out).at("settings");
  const auto row = std::ranges::find_if(rows, [](const Json& r) { return r.at("name") == "R2CCL_PEER_TIMEOUT"; });
  EXPECT_EQ(row->at("default"), "60s");
  EXPECT_EQ(row->at("value"), "5s");
}

TEST(FuzzNet, OneSeedPrintsTheKeysOfTheContract) {
  const Ran ran = run({"fuzz-net", "--seed", "7", "--json"});
  const Json object = Json::parse(ran.out);
  EXPECT_EQ(ran.status, object.at("failed") == 0 ? kExitOk : kExitFailed);
  EXPECT_EQ(object.at("seeds"), 1);
  for (const char* key : {"faults", "repairs", "seconds"}) EXPECT_TRUE(object.contains(key)) << key;
}

TEST(FuzzNet, TheSameSeedGivesTheSameDigestWhateverTheThreads) {
  const auto digest = [](const std::string& threads) {
    return Json::parse(run({"fuzz-net", "--seed", "3", "--seeds", "6", "--threads", threads, "--json"}).out)
        .at("digest");
  };
  EXPECT_EQ(digest("1"), digest("3"));
}

// ---- printing ---------------------------------------------------------------------------------------------------

TEST(TableText, AlignsColumnsAndEndsNoLineWithBlanks) {
  const TestConsole console;
  Table table({{"name"}, {"rate", Align::kRight}, {"note"}});
  table.add({"R²", "1", "a"});
  table.add({"long name", "1000"});
  EXPECT_EQ(table.text(console, 1),
            " name       rate  note\n"
            " R²            1  a\n"
            " long name  1000\n");
}

TEST(ConsolePaint, ColoursOnlyATerminal) {
  TestConsole console;
  EXPECT_EQ(console.paint(Colour::kRed, "x"), "x");
  console.terminal = true;
  EXPECT_EQ(console.paint(Colour::kRed, "x"), "\033[31mx\033[0m");
}

TEST(ConsoleProgress, ShowsNothingUnlessATerminal) {
  TestConsole console;
  console.progress("1 of 2");
  console.progress("");
  EXPECT_EQ(console.err_text, "");
  console.terminal = true;
  console.progress("1 of 2");
  EXPECT_THAT(console.err_text, HasSubstr("1 of 2"));
}

TEST(BenchReport, RatiosCompareNeighboursInTime) {
  BenchSamples samples;
  samples.add({{"bytes", 100}, {"bare_s", 1.0}, {"plain_s", 2.0}, {"checksum_s", 4.0}});
  samples.add({{"bytes", 100}, {"bare_s", 10.0}, {"plain_s", 10.0}, {"checksum_s", 20.0}});
  samples.add({{"bytes", 100}, {"bare_s", 1.0}, {"plain_s", 1.25}, {"checksum_s", 2.0}});
  samples.add({{"trips", 10}, {"bare_trip_s", 1.0}, {"our_trip_s", 1.5}});
  samples.add({{"idle_cpu_percent", 0.5}});
  samples.add({{"idle_cpu_percent", 0.25}});
  const BenchSummary summary = summarize(samples);
  EXPECT_DOUBLE_EQ(summary.throughput_ratio, 0.8);
  EXPECT_DOUBLE_EQ(summary.throughput_ratio_checksum, 0.5);
  EXPECT_DOUBLE_EQ(summary.roundtrip_ratio, 1.5);
  EXPECT_DOUBLE_EQ(summary.idle_cpu_percent, 0.5);
  const Json object = Json::parse(summary_json(summary));
  for (const char* key : {"throughput_ratio", "throughput_ratio_checksum", "roundtrip_ratio", "idle_cpu_percent"})
    EXPECT_TRUE(object.contains(key)) << key;
}

// ---- bytes and processes ----------------------------------------------------------------------------------------

TEST(Pattern, EveryChangedByteIsCounted) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, std::size_t{100'003}}) {
    Bytes bytes(size);
    fill_pattern({0, 1, 5}, bytes);
    EXPECT_EQ(count_wrong({0, 1, 5}, bytes), 0u);
    bytes.front() ^= std::byte{1};
    EXPECT_EQ(count_wrong({0, 1, 5}, bytes), 1u);
    bytes.back() ^= std::byte{0x80};
    EXPECT_EQ(count_wrong({0, 1, 5}, bytes), size == 1 ? 1u : 2u);
  }
}

TEST(Pattern, AnotherMessageOrPositionIsWrong) {
  Bytes bytes(4096);
  fill_pattern({0, 1, 5}, bytes);
  for (const MessageName other : {MessageName{1, 0, 5}, MessageName{0, 2, 5}, MessageName{0, 1, 6}})
    EXPECT_GT(count_wrong(other, bytes), 4000u);
  EXPECT_GT(count_wrong({0, 1, 5}, ByteView(bytes).subspan(8)), 3000u);
}

TEST(ChildProcesses, TalkInLinesAndAreCollected) {
  Children children;
  const auto echo = [](LineChannel& parent) {
    const auto line = parent.receive(steady_now() + 10s);
    parent.send("heard " + line.value_or("nothing"));
    return kExitOk;
  };
  ASSERT_TRUE(children.start(echo));
  ASSERT_TRUE(children.start(echo));
  for (std::size_t i = 0; i < children.count(); ++i) {
    children.channel(i).send("you");
    EXPECT_EQ(children.channel(i).receive(steady_now() + 10s), "heard you");
    EXPECT_EQ(children.channel(i).receive(steady_now() + 10s), std::nullopt);
    EXPECT_TRUE(children.channel(i).closed());
  }
  EXPECT_TRUE(children.join(steady_now() + 10s));
}

TEST(ChildProcesses, OneThatDoesNotEndIsKilledAtTheDeadline) {
  Children children;
  ASSERT_TRUE(children.start([](LineChannel& parent) {
    parent.receive(steady_now() + 600s);
    return kExitOk;
  }));
  EXPECT_FALSE(children.join(steady_now()));
}

TEST(BareCopy, MovesEveryMessageThroughTheRing) {
  std::vector<Fd> here, there;
  for (std::size_t nic = 0; nic < 3; ++nic) {
    auto ends = connect_bare(bench_address(nic));
    ASSERT_TRUE(ends) << ends.error().what;
    here.push_back(std::move(ends->first));
    there.push_back(std::move(ends->second));
  }
  const CopyPlan plan{.messages = 5, .message_bytes = 50'000, .slots = 5};
  Bytes ring(plan.slots * plan.message_bytes);
  Children children;
  ASSERT_TRUE(children.start([&](LineChannel&) {
    fill_pattern({0, 1, 0}, ring);
    return bare_send(here, plan, ring) ? kExitOk : kExitFailed;
  }));
  const Status received = bare_receive(there, plan, ring);
  EXPECT_TRUE(received) << received.error().what;
  EXPECT_EQ(count_wrong({0, 1, 0}, ring), 0u);
  EXPECT_TRUE(children.join(steady_now() + 10s));
}

}  // namespace
}  // namespace r2ccl::apps
