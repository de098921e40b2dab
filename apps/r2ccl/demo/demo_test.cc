// The demo without its processes: what it plans, what it makes of reports, and how that looks.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "apps/r2ccl/common/table.h"
#include "apps/r2ccl/demo/demo_page.h"
#include "apps/r2ccl/demo/demo_plan.h"
#include "apps/r2ccl/demo/demo_story.h"
#include "apps/r2ccl/demo/demo_tap.h"
#include "apps/r2ccl/demo/demo_view.h"
#include "testing/test_console.h"

namespace r2ccl::apps {
namespace {

Instant at(int ms) {
  return Instant(ms * 1ms);
}

// ---- the plan ---------------------------------------------------------------------------------------------------

TEST(DemoPlan, TheUsualFaultsFitAndAllHealInTime) {
  for (const Duration length : {Duration(3s), Duration(21s), Duration(60s)}) {
    DemoPlan plan;
    plan.length = length;
    plan.faults = demo_faults(plan);
    EXPECT_TRUE(check_faults(plan));
    for (const FaultSpec& fault : plan.faults) {
      EXPECT_LT(fault.at.time + fault.lasting, length);
      EXPECT_EQ(parse_fault(to_text(fault)), fault) << to_text(fault);
    }
  }
}

TEST(DemoPlan, TheUsualFaultsAreACableABlackHoleAndASlowNicOnDifferentServers) {
  DemoPlan plan;
  std::vector<FaultKind> kinds;
  std::set<std::uint64_t> servers;
  for (const FaultSpec& fault : demo_faults(plan)) {
    kinds.push_back(fault.kind);
    servers.insert(fault.server.value);
  }
  EXPECT_THAT(kinds, testing::ElementsAre(FaultKind::kCable, FaultKind::kBlackhole, FaultKind::kSlow));
  EXPECT_EQ(servers.size(), 3u);
}

// ---- reports ----------------------------------------------------------------------------------------------------

TEST(DemoReport, ComesBackAsItWasSaid) {
  const DemoRound round = demo_round(Json::parse(to_json(DemoRound{7, at(1234), 3, "weighted_direct", 2}).dump()));
  EXPECT_EQ(round.number, 7u);
  EXPECT_EQ(round.at, at(1234));
  EXPECT_EQ(round.wrong, 3u);
  EXPECT_EQ(round.algorithm, "weighted_direct");
  EXPECT_EQ(round.health_version, 2u);
  const DemoTick tick = demo_tick(Json::parse(to_json(DemoTick{at(5), {1, 2}}).dump()));
  EXPECT_EQ(tick.at, at(5));
  EXPECT_THAT(tick.sent_bytes, testing::ElementsAre(1, 2));
}

// ---- the story --------------------------------------------------------------------------------------------------

class DemoStoryTest : public testing::Test {
 protected:
  explicit DemoStoryTest(const std::string& fault = "at=1s server=0 nic=1 kind=cable for=1s") {
    plan_.servers = 3;
    plan_.in_lab = true;
    plan_.faults = {*parse_fault(fault)};
    story_.emplace(plan_, Instant{}, [this](Instant when, Colour colour, const std::string& text) {
      lines_.push_back(fmt::format("{:.0f} {}", to_ms(when.time_since_epoch()), text));
      drawn_.push_back({when, colour, text});
    });
  }
  void event(std::uint32_t rank, EventKind kind, int ms, std::uint32_t peer = 0, Cause cause = Cause::kNone) {
    story_->on_report(
        rank, to_json(DemoEvent{.kind = kind, .at = at(ms), .peer = peer, .here = 1, .there = 1, .cause = cause}));
  }
  // The cable between servers 0 and 1 is pulled, fenced at both ends, put back and trusted.
  void play_cable() {
    story_->on_begun(0, at(1000));
    event(0, EventKind::kPathDown, 1001, 1, Cause::kCarrier);
    event(1, EventKind::kPathDown, 1003, 0, Cause::kTold);
    story_->on_report(0, to_json(DemoResent{at(1004), 2, 4096}));
    event(0, EventKind::kFenceReceived, 1004, 1);
    event(1, EventKind::kFenceReceived, 1005, 0);
    story_->settle(at(1500));
    story_->on_healed(0, at(2000));
    event(0, EventKind::kPathTrusted, 2300, 1);
    event(1, EventKind::kPathTrusted, 2301, 0);
    story_->settle(at(2500));
  }
  // AllReduces one after the other at all ranks, from `from` to `to`, each `took` long.
  void play_rounds(int from, int to, int took, std::uint64_t health = 0) {
    for (int ms = from + took; ms <= to; ms += took, ++round_) {
      for (std::uint32_t rank = 0; rank < plan_.servers; ++rank)
        story_->on_report(rank, to_json(DemoRound{round_, at(ms), 0, "ring", health}));
    }
  }
  void play_totals(std::uint64_t wrong = 0) {
    for (std::uint32_t rank = 0; rank < plan_.servers; ++rank)
      story_->on_report(rank, to_json(DemoTotals{round_, 100, rank == 1 ? wrong : 0}));
  }

  DemoPlan plan_;
  std::vector<std::string> lines_;
  std::vector<DemoLine> drawn_;
  std::optional<DemoStory> story_;
  std::uint64_t round_ = 0;
};

TEST_F(DemoStoryTest, TellsAFaultFromBeginningToEnd) {
  play_cable();
  EXPECT_THAT(lines_, testing::ElementsAre(
                          "1000 - server 0 NIC 1: cable pulled", "1001   noticed after 1 ms: carrier lost",
                          "1005   repaired after 5 ms: 1 path fenced, 4 KiB sent again over 0:2",
                          "2000 + server 0 NIC 1: cable back", "2301   server 0 NIC 1 back in use 301 ms later"));
  EXPECT_TRUE(story_->all_over());
}

TEST_F(DemoStoryTest, OnLoopbackTheLibrarySaysWhenAFaultBegins) {
  plan_.in_lab = false;
  plan_.nics = 4;
  DemoStory story(plan_, Instant{}, [](Instant, Colour, const std::string&) {});
  // Number 5 is the first fault after the four that give the NICs their speed.
  for (const std::uint64_t number : {4, 5}) {
    EXPECT_EQ(story.mark(0, 1), NicMark::kFine);
    story.on_report(0, to_json(DemoEvent{.kind = EventKind::kFaultInjected, .at = at(1000), .number = number}));
  }
  EXPECT_EQ(story.mark(0, 1), NicMark::kBroken);
}

TEST_F(DemoStoryTest, IsNotOverAndNotGoodWhileAPathIsAway) {
  play_rounds(0, 3000, 50);
  story_->on_begun(0, at(1000));
  event(0, EventKind::kPathDown, 1001, 1, Cause::kCarrier);
  event(0, EventKind::kFenceReceived, 1002, 1);
  story_->on_healed(0, at(2000));
  story_->settle(at(3000));
  EXPECT_EQ(story_->mark(0, 1), NicMark::kReturning);
  EXPECT_FALSE(story_->all_over());
  play_totals();
  story_->close(at(3000));
  EXPECT_FALSE(story_->summary().good());
}

TEST_F(DemoStoryTest, APathThatGoesDownLateProlongsTheRepair) {
  story_->on_begun(0, at(1000));
  event(0, EventKind::kPathDown, 1001, 1, Cause::kSilent);
  event(0, EventKind::kFenceReceived, 1005, 1);
  story_->settle(at(1200));
  event(0, EventKind::kPathDown, 1300, 1, Cause::kTimeout);  // tried again in vain
  event(0, EventKind::kPathDown, 1400, 2, Cause::kSilent);
  event(0, EventKind::kFenceReceived, 1410, 2);
  story_->settle(at(1600));
  EXPECT_THAT(lines_, testing::Contains("1005   repaired after 5 ms: 1 path fenced"));
  EXPECT_THAT(lines_, testing::Contains("1410   repaired after 410 ms: 2 paths fenced"));
}

TEST_F(DemoStoryTest, ANicThatWentAwayAgainIsNotMended) {
  play_rounds(0, 3000, 50);
  play_cable();
  event(0, EventKind::kPathDown, 2400, 2, Cause::kCarrier);
  story_->close(at(3000));
  EXPECT_FALSE(story_->summary().faults.front().mended);
}

TEST_F(DemoStoryTest, PathsThatEndWithTheRanksAreNoNews) {
  play_cable();
  story_->close(at(8000));
  event(0, EventKind::kPathDown, 8001, 1, Cause::kClosed);
  EXPECT_EQ(story_->summary().faults.front().back, at(2301));
}

TEST_F(DemoStoryTest, TheStallIsTheLongestPauseSinceTheFault) {
  story_->on_begun(0, at(1000));
  story_->on_report(1, to_json(DemoGap{at(900), at(950)}));  // before it
  story_->on_report(1, to_json(DemoGap{at(990), at(1030)}));
  story_->on_report(1, to_json(DemoGap{at(1100), at(1110)}));
  story_->on_report(2, to_json(DemoGap{at(1900), at(1990)}));  // long after it
  story_->close(at(8000));
  EXPECT_EQ(story_->summary().faults.front().longest_gap, 30ms);
}

TEST_F(DemoStoryTest, OneWrongElementSpoilsIt) {
  play_rounds(0, 3000, 50);
  play_cable();
  story_->close(at(3000));
  play_totals();
  EXPECT_TRUE(story_->all_totals());
  EXPECT_TRUE(story_->summary().good());
  EXPECT_EQ(story_->summary().checked, 300u);
  play_totals(1);
  EXPECT_EQ(story_->summary().wrong, 1u);
  EXPECT_FALSE(story_->summary().good());
}

TEST_F(DemoStoryTest, TimeLostIsWhatRoundsTookBeyondTheUsualUntilTheRepair) {
  play_rounds(0, 1000, 50);
  play_rounds(1000, 1080, 80);  // the one the fault fell into
  play_rounds(1080, 8000, 60);  // a NIC fewer
  play_cable();
  story_->close(at(8000));
  const FaultStory fault = story_->summary().faults.front();
  EXPECT_EQ(fault.lost, 30ms);
  EXPECT_EQ(fault.round_before, 50ms);
  EXPECT_EQ(fault.round_during, 60ms);
  EXPECT_EQ(story_->usual_round(), 50ms);
}

TEST_F(DemoStoryTest, ANewPlanIsTold) {
  play_rounds(0, 200, 50);
  play_rounds(200, 400, 50, 1);
  EXPECT_THAT(lines_, testing::ElementsAre("50   ring for health map 0", "250   ring for health map 1"));
}

class DemoSlowTest : public DemoStoryTest {
 protected:
  DemoSlowTest() : DemoStoryTest("at=1s server=0 nic=1 kind=slow:50mbit for=1s") {}
  // A tick each 100 ms; `share`: what NIC 1 sends of what the four together do.
  void play_ticks(int from, int to, double share) {
    for (int ms = from; ms < to; ms += 100) {
      for (std::size_t nic = 0; nic < 4; ++nic)
        sent_[nic] += static_cast<std::uint64_t>(1e6 * (nic == 1 ? share : (1 - share) / 3));
      story_->on_report(0, to_json(DemoTick{at(ms + 100), sent_}));
    }
  }
  std::vector<std::uint64_t> sent_ = std::vector<std::uint64_t>(4);
};

TEST_F(DemoSlowTest, IsRepairedWhenAllReducesAreFastAgainAndBackWhenItCarriesItsShare) {
  story_->on_report(0, to_json(DemoTick{at(0), sent_}));
  play_ticks(0, 1000, 0.25);
  play_rounds(0, 1000, 50);
  story_->on_begun(0, at(1000));
  play_ticks(1000, 2000, 0.03);
  play_rounds(1000, 1400, 200);
  story_->settle(at(1460));
  EXPECT_FALSE(story_->all_over());
  play_rounds(1400, 2000, 60);
  story_->settle(at(2000));
  story_->on_healed(0, at(2000));
  play_ticks(2000, 2500, 0.04);
  story_->settle(at(2500));
  EXPECT_FALSE(story_->all_over());
  play_ticks(2500, 3000, 0.24);
  story_->settle(at(3000));
  story_->settle(at(3100));
  EXPECT_TRUE(story_->all_over());
  story_->close(at(3200));
  const FaultStory fault = story_->summary().faults.front();
  EXPECT_EQ(fault.repaired, at(1460));
  EXPECT_GT(fault.back, at(2500));
  EXPECT_NEAR(fault.share_before, 0.25, 0.01);
  EXPECT_NEAR(fault.share_during, 0.03, 0.01);
  EXPECT_TRUE(fault.mended);
}

TEST_F(DemoSlowTest, IsNotRepairedWhileAllReducesStaySlow) {
  play_rounds(0, 1000, 50);
  story_->on_begun(0, at(1000));
  play_rounds(1000, 2000, 200);
  story_->settle(at(2000));
  story_->on_healed(0, at(2000));
  story_->close(at(3000));
  EXPECT_FALSE(story_->summary().faults.front().mended);
}

// ---- series -----------------------------------------------------------------------------------------------------

TEST(DemoSeries, ARoundCountsWhenTheLastRankIsDone) {
  DemoSeries series(2, 1);
  series.add(DemoRound{0, at(10), 0, "ring", 0});
  series.add(DemoRound{1, at(20), 0, "ring", 0});
  EXPECT_EQ(series.rounds(), 0u);
  series.add(DemoRound{0, at(12), 1, "ring", 0});
  EXPECT_EQ(series.rounds(), 1u);
  EXPECT_EQ(series.round(0).at, at(12));
  EXPECT_EQ(series.round(0).wrong, 1u);
  series.add(DemoRound{1, at(19), 0, "ring", 0});
  EXPECT_EQ(series.took(1), 8ms);
}

TEST(DemoSeries, RatesLieBetweenTicks) {
  DemoSeries series(1, 2);
  series.add(0, DemoTick{at(0), {0, 0}});
  series.add(0, DemoTick{at(1000), {1'000'000, 3'000'000}});
  series.add(0, DemoTick{at(2000), {1'000'000, 6'000'000}});
  EXPECT_NEAR(series.sent_rate(0, 0, at(500), at(1500)), 0.5e6, 1);
  EXPECT_NEAR(series.sent_share(0, 0, at(0), at(1000)), 0.25, 1e-9);
  EXPECT_EQ(series.sent_rate(7, 0, at(0), at(1000)), 0);
}

// ---- the view ---------------------------------------------------------------------------------------------------

TEST(DemoView, ABarIsAsWideAsItSays) {
  for (const double part : {-1.0, 0.0, 0.01, 0.49, 0.5, 0.99, 1.0, 2.0}) EXPECT_EQ(columns_of(bar_text(part, 10)), 10u);
  EXPECT_EQ(bar_text(0.5, 4), "██ ▕");
  EXPECT_EQ(bar_text(1, 2), "██");
}

TEST_F(DemoStoryTest, ThePictureFitsAndShowsWhatIsBroken) {
  TestConsole console;
  play_rounds(0, 900, 50, 3);
  story_->on_begun(0, at(1000));
  const std::string text = view_text(plan_, *story_, 1s, at(1000), console);
  EXPECT_THAT(text, testing::HasSubstr("✗"));
  EXPECT_THAT(text, testing::HasSubstr("ring, health map 3"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 2 + plan_.servers + 3);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), 80u) << line;
}

TEST(LiveView, LinesStayAboveThePictureWhichIsDrawnInPlace) {
  TestConsole console;
  console.terminal = true;
  LiveView view(console);
  EXPECT_TRUE(view.due(at(1)));
  view.draw("a\nb\n", at(1));
  EXPECT_FALSE(view.due(at(2)));
  view.line("event");
  view.erase();
  EXPECT_EQ(console.out_text, "a\nb\n\033[2A\r\033[Jevent\na\nb\n\033[2A\r\033[J");
}

TEST(LiveView, WithoutATerminalThereAreOnlyLines) {
  TestConsole console;
  {
    LiveView view(console);
    EXPECT_FALSE(view.due(at(1)));
    view.line("event");
  }
  EXPECT_EQ(console.out_text, "event\n");
}

// ---- the page ---------------------------------------------------------------------------------------------------

TEST_F(DemoStoryTest, ThePageHasEverythingAndFetchesNothing) {
  play_rounds(0, 3000, 50);
  play_cable();
  drawn_.push_back({at(2900), Colour::kPlain, "</script><b>"});
  play_totals();
  story_->close(at(3000));
  const Json model = page_model(plan_, *story_, story_->summary(), drawn_, Instant{});
  ASSERT_EQ(model["nic_mb_s"].size(), 3u);
  ASSERT_EQ(model["nic_mb_s"][0].size(), 4u);
  EXPECT_EQ(model["nic_mb_s"][0][0].size(), 61u);  // 0 to 3 s by 50 ms
  EXPECT_EQ(model["rounds"].size(), 59u);
  EXPECT_EQ(model["faults"][0]["title"], "cable pulled");
  EXPECT_EQ(model["events"][1][1], "fault");
  EXPECT_EQ(model["events"][1][2], "server 0 NIC 1: cable pulled");
  const std::string page = page_html(model);
  EXPECT_EQ(page.find("</script><b>"), std::string::npos) << "words must not end the script they are in";
  for (const char* outside : {"src=", "href=", "url(", "@import", "fetch("})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  EXPECT_THAT(page, testing::HasSubstr("default-src 'none'"));
}

// ---- the tap ----------------------------------------------------------------------------------------------------

TEST(DemoTap, TellsPausesAndCountsBytesByNic) {
  ProcessInfo self, other;
  self.process = ProcessId{1};
  other.process = ProcessId{2};
  other.server = {1};
  DemoTap tap(self.process, {self, other}, 2);
  const auto event = [&](EventKind kind, int ms, std::uint64_t bytes) {
    tap.on_event({.at = at(ms), .kind = kind, .path = {{1}, {0}}, .peer = other.process, .bytes = bytes});
  };
  event(EventKind::kChunkPlaced, 1, 10);  // before the start
  tap.start(at(100));
  event(EventKind::kChunkPlaced, 103, 10);
  event(EventKind::kChunkPlaced, 120, 10);
  event(EventKind::kChunkSent, 121, 10);
  event(EventKind::kChunkReplayed, 122, 7);
  const std::vector<Json> reports = tap.take();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(demo_gap(reports[0]).from, at(103));
  EXPECT_EQ(demo_gap(reports[0]).to, at(120));
  EXPECT_EQ(demo_resent(reports[1]).bytes, 7u);
  EXPECT_THAT(tap.sent_bytes(), testing::ElementsAre(0, 17));
  EXPECT_TRUE(tap.take().empty());
}

}  // namespace
}  // namespace r2ccl::apps
