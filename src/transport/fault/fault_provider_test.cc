#include "transport/fault/fault_provider.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/fake_provider.h"

namespace r2ccl {
namespace {

constexpr ServerId kHere{3};
constexpr Instant kStart = Instant{} + 1000s;

FaultSpec spec(std::string_view text) {
  auto parsed = parse_fault(std::string(text) + " server=3");
  EXPECT_TRUE(parsed) << parsed.error().what;
  return parsed.value_or(FaultSpec{});
}

struct Bench {
  explicit Bench(std::vector<FaultSpec> specs = {}) : provider(inner, kHere, specs, &telemetry, hooks()) {}

  FaultHooks hooks() {
    return {.deafen_nic = [this](NicId nic, bool on) { deaf_nics.emplace_back(nic.value, on); }};
  }
  std::unique_ptr<Link> open(int nic, Instant now) {
    auto link = provider.connect({static_cast<std::uint8_t>(nic)}, {}, {}, now);
    EXPECT_TRUE(link);
    (*link)->step(now, sink);
    return std::move(*link);
  }
  std::size_t count(EventKind kind) const {
    std::size_t n = 0;
    for (const Event& event : telemetry.events()) n += event.kind == kind ? 1 : 0;
    return n;
  }
  std::vector<bool> nic_events() {
    std::vector<bool> ups;
    while (const auto event = provider.next_event()) ups.push_back(event->up);
    return ups;
  }
  static Result<Ticket> post(Link& link, std::uint32_t bytes) {
    OutFrame frame;
    frame.header.payload_bytes = bytes;
    return link.post(frame);
  }

  FakeProvider inner{2};
  Telemetry telemetry;
  FakeSink sink;
  std::vector<std::pair<int, bool>> deaf_nics;
  FaultProvider provider;
};

TEST(FaultProvider, WithoutFaultsEverythingPassesInTheNameOfTheDecoratedLink) {
  Bench bench;
  bench.provider.step(kStart);
  auto link = bench.open(0, kStart);
  EXPECT_EQ(link->state(), LinkState::kUp);
  bench.inner.wires[0]->arriving = {10, 20};
  link->step(kStart, bench.sink);
  link->drain_and_close(kStart, bench.sink);
  EXPECT_EQ(bench.sink.bytes, 30u);
  EXPECT_EQ(bench.sink.from, link.get());
  EXPECT_TRUE(bench.inner.wires[0]->drained);
  EXPECT_EQ(link->state(), LinkState::kDown);
}

TEST(FaultProvider, TheStepAfterAFaultBetweenTwoStepsSaysThatThereIsNews) {
  Bench bench;
  bench.provider.step(kStart);
  ASSERT_TRUE(bench.provider.inject(spec("at=0 nic=0 kind=cable"), kStart));
  EXPECT_TRUE(bench.provider.step(kStart).moved) << "or nobody fetches the event";
  EXPECT_EQ(bench.nic_events(), (std::vector<bool>{false}));
  EXPECT_FALSE(bench.provider.step(kStart).moved);
}

TEST(FaultProvider, BlackholeHoldsEverythingTellsNobodyAndHeals) {
  Bench bench({spec("at=2s nic=0 kind=blackhole for=5s")});
  bench.provider.step(kStart);
  auto link = bench.open(0, kStart);
  auto other = bench.open(1, kStart);
  EXPECT_EQ(bench.provider.step(kStart + 1s).next, kStart + 2s);
  EXPECT_FALSE(bench.provider.cut({0}));

  EXPECT_TRUE(bench.provider.step(kStart + 2s).moved);
  EXPECT_TRUE(bench.inner.wires[0]->deaf);
  EXPECT_FALSE(bench.inner.wires[1]->deaf);
  EXPECT_EQ(bench.deaf_nics.back(), (std::pair{0, true}));
  EXPECT_TRUE(bench.nic_events().empty());
  EXPECT_EQ(link->progress(kStart + 2s).unacked_bytes, 0u) << "nothing was posted";

  ASSERT_TRUE(Bench::post(*link, 1000));
  bench.inner.wires[0]->arriving = {10};
  EXPECT_TRUE(link->step(kStart + 3s, bench.sink)) << "what arrived before the cut was acknowledged and must be read";
  EXPECT_EQ(bench.sink.frames, 1);
  EXPECT_FALSE(link->step(kStart + 3s, bench.sink));
  EXPECT_EQ(bench.inner.wires[0]->sent_bytes, 0u);
  EXPECT_EQ(link->state(), LinkState::kUp);
  const Progress progress = link->progress(kStart + 3s);
  EXPECT_EQ(progress.unacked_bytes, 1000u);
  EXPECT_EQ(progress.acked_bytes, 0u);
  EXPECT_EQ(progress.last_ack_age, 1s);
  EXPECT_TRUE(other->step(kStart + 3s, bench.sink) || bench.inner.wires[1]->steps == 2);

  bench.provider.step(kStart + 7s);
  EXPECT_FALSE(bench.inner.wires[0]->deaf);
  link->step(kStart + 7s, bench.sink);
  EXPECT_EQ(bench.inner.wires[0]->sent_bytes, 1000u);
  EXPECT_EQ(bench.count(EventKind::kFaultInjected), 1u);
  EXPECT_EQ(bench.count(EventKind::kFaultHealed), 1u);
  EXPECT_EQ(bench.provider.waiting_or_active(), 0u);
}

TEST(FaultProvider, PostsIntoABlackholeAreBoundedLikeAnyQueue) {
  Bench bench;
  bench.provider.step(kStart);
  auto link = bench.open(0, kStart);
  ASSERT_TRUE(bench.provider.inject(spec("at=0 nic=0 kind=blackhole"), kStart));
  while (Bench::post(*link, 100'000)) {
  }
  EXPECT_EQ(Bench::post(*link, 100'000).error().fault, Fault::kBusy);
}

TEST(FaultProvider, DrainOnACutNicStillGivesWhatHadArrived) {
  Bench bench;
  bench.provider.step(kStart);
  auto link = bench.open(0, kStart);
  bench.inner.wires[0]->arriving = {1, 2, 3};
  ASSERT_TRUE(bench.provider.inject(spec("at=0 nic=0 kind=cable"), kStart));
  link->drain_and_close(kStart, bench.sink);
  EXPECT_EQ(bench.sink.frames, 3);
  EXPECT_EQ(link->state(), LinkState::kDown);
}

TEST(FaultProvider, ConnectionsOnACutNicNeverComeUp) {
  Bench bench;
  bench.provider.step(kStart);
  ASSERT_TRUE(bench.provider.inject(spec("at=0 nic=0 kind=blackhole"), kStart));
  auto link = bench.open(0, kStart);
  EXPECT_TRUE(bench.inner.wires.empty());
  EXPECT_EQ(link->state(), LinkState::kOpening);
  EXPECT_FALSE(link->step(kStart + 999ms, bench.sink));
  EXPECT_TRUE(link->step(kStart + 1s, bench.sink));
  EXPECT_EQ(link->state(), LinkState::kDown);
  EXPECT_EQ(link->cause(), Cause::kTimeout);
  EXPECT_FALSE(link->error().empty());
  link->close();
}

TEST(FaultProvider, OpeningConnectionCaughtByACutTimesOut) {
  Bench bench;
  bench.provider.step(kStart);
  auto link = std::move(*bench.provider.connect({0}, {}, {}, kStart));
  ASSERT_TRUE(bench.provider.inject(spec("at=0 nic=0 kind=cable"), kStart + 10ms));
  EXPECT_FALSE(link->step(kStart + 500ms, bench.sink));
  EXPECT_TRUE(link->step(kStart + 1s, bench.sink));
  EXPECT_EQ(link->cause(), Cause::kTimeout);
}

TEST(FaultProvider, InboundConnectionsVanishOnACutNicAndAreBounded) {
  Bench bench;
  bench.provider.step(kStart);
  ASSERT_TRUE(bench.provider.inject(spec("at=0 nic=0 kind=blackhole for=1s"), kStart));
  for (int i = 0; i < 100; ++i) bench.inner.inbound.push_back({0});
  bench.inner.inbound.push_back({1});
  auto shown = bench.provider.accept();
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->nic(), NicId{1});
  EXPECT_TRUE(bench.inner.wires[99]->deaf);
  EXPECT_FALSE(bench.inner.wires[99]->destroyed);
  EXPECT_TRUE(bench.inner.wires[0]->destroyed);
  bench.provider.step(kStart + 1s);
  EXPECT_TRUE(bench.inner.wires[99]->destroyed);
  EXPECT_FALSE(bench.provider.accept());
}

TEST(FaultProvider, CableTellsTheCarrierAndKeepsLinksSilent) {
  Bench bench({spec("at=0 nic=1 kind=cable for=1s")});
  bench.provider.step(kStart - 1s);  // the first step is time zero
  EXPECT_EQ(bench.nic_events(), (std::vector<bool>{false}));
  bench.provider.step(kStart);
  EXPECT_EQ(bench.nic_events(), (std::vector<bool>{true}));
}

TEST(FaultProvider, DownFailsLinksAndNewOnesLocally) {
  Bench bench;
  bench.provider.step(kStart);
  auto link = bench.open(0, kStart);
  ASSERT_TRUE(bench.provider.inject(spec("at=0 nic=0 kind=down for=1s"), kStart));
  EXPECT_EQ(bench.nic_events(), (std::vector<bool>{false}));
  EXPECT_EQ(link->state(), LinkState::kDown);
  EXPECT_EQ(link->cause(), Cause::kLocal);
  EXPECT_EQ(Bench::post(*link, 1).error().fault, Fault::kPathDown);
  EXPECT_TRUE(bench.inner.wires[0]->deaf) << "nothing may reach the other end, not even a farewell";
  auto late = bench.open(0, kStart);
  EXPECT_EQ(late->state(), LinkState::kDown);
  EXPECT_EQ(late->cause(), Cause::kLocal);

  bench.provider.step(kStart + 1s);
  EXPECT_EQ(bench.nic_events(), (std::vector<bool>{true}));
  EXPECT_EQ(link->state(), LinkState::kDown) << "a failed link does not come back";
  EXPECT_EQ(bench.open(0, kStart + 1s)->state(), LinkState::kUp);
}

TEST(FaultProvider, ResetHitsTheLinksOfThatMomentOnly) {
  Bench bench;
  bench.provider.step(kStart);
  auto drained = bench.open(0, kStart);
  auto closed = bench.open(0, kStart);
  auto spared = bench.open(1, kStart);
  ASSERT_TRUE(bench.provider.inject(spec("at=0 nic=0 kind=reset"), kStart));
  EXPECT_EQ(drained->cause(), Cause::kReset);
  EXPECT_EQ(closed->state(), LinkState::kDown);
  EXPECT_EQ(spared->state(), LinkState::kUp);
  drained->drain_and_close(kStart, bench.sink);
  closed->close();
  EXPECT_TRUE(bench.inner.wires[0]->drained);
  EXPECT_TRUE(bench.inner.wires[1]->drained) << "an orderly farewell would not be a reset at the other end";
  EXPECT_FALSE(bench.inner.wires[0]->deaf);
  EXPECT_EQ(bench.open(0, kStart)->state(), LinkState::kUp);
  EXPECT_EQ(bench.count(EventKind::kFaultInjected), 1u);
  EXPECT_EQ(bench.provider.waiting_or_active(), 0u);
}

TEST(FaultProvider, SlowNicMovesItsRateEachWayAndIsNeverSilent) {
  Bench bench;
  bench.provider.step(kStart);
  auto link = bench.open(0, kStart);
  ASSERT_TRUE(bench.provider.inject(spec("at=0 nic=0 kind=slow:8mbit"), kStart));  // 1 MB/s
  std::uint64_t acked = 0;
  Duration longest_pause{}, pause{};
  for (Instant now = kStart; now < kStart + 10s; now += 1ms) {
    bench.provider.step(now);
    while (bench.inner.wires[0]->queued_bytes < 20'000 && Bench::post(*link, 10'000)) {
    }
    if (bench.inner.wires[0]->arriving.empty()) bench.inner.wires[0]->arriving.push_back(5'000);
    link->step(now, bench.sink);
    const Progress progress = link->progress(now);
    EXPECT_EQ(progress.unacked_bytes, 0u);
    pause = progress.acked_bytes == acked ? pause + 1ms : Duration{};
    longest_pause = std::max(longest_pause, pause);
    acked = progress.acked_bytes;
  }
  EXPECT_NEAR(static_cast<double>(bench.inner.wires[0]->sent_bytes), 10e6, 0.3e6);
  EXPECT_LE(longest_pause, 25ms);
  EXPECT_GT(bench.sink.bytes, 1'000'000u);
}

TEST(FaultProvider, SlowNicSaysWhenItCanGoOn) {
  Bench bench;
  bench.provider.step(kStart);
  auto link = bench.open(0, kStart);
  ASSERT_TRUE(bench.provider.inject(spec("at=0 nic=0 kind=slow:8mbit"), kStart));
  bench.inner.wires[0]->arriving = {1'000'000, 1};
  EXPECT_TRUE(link->step(kStart, bench.sink));
  EXPECT_FALSE(link->step(kStart + 1ms, bench.sink));
  const Instant next = bench.provider.step(kStart + 1ms).next;
  EXPECT_GT(next, kStart + 900ms);
  EXPECT_LT(next, kStart + 1s);
  bench.provider.step(next);
  EXPECT_TRUE(link->step(next, bench.sink));
}

TEST(FaultProvider, WhatLeftBeforeTheNicBecameSlowIsFree) {
  Bench bench;
  bench.provider.step(kStart);
  auto link = bench.open(0, kStart);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(Bench::post(*link, 500'000));
    link->step(kStart, bench.sink);
  }
  ASSERT_TRUE(bench.provider.inject(spec("at=0 nic=0 kind=slow:8mbit"), kStart));
  bench.inner.wires[0]->arriving = {1, 1};
  EXPECT_TRUE(link->step(kStart, bench.sink));
  EXPECT_TRUE(link->step(kStart, bench.sink));
}

TEST(FaultProvider, FlapAlternatesUntilItsTimeIsOver) {
  Bench bench({spec("at=0 nic=0 kind=flap:200ms for=900ms")});
  std::vector<Instant> turns;
  for (Instant now = kStart; now != kNever;) {
    const Turn turn = bench.provider.step(now);
    turns.push_back(now);
    ASSERT_GT(turn.next, now);
    now = turn.next;
  }
  EXPECT_EQ(turns, (std::vector<Instant>{kStart, kStart + 200ms, kStart + 400ms, kStart + 600ms, kStart + 800ms,
                                         kStart + 900ms}));
  EXPECT_EQ(bench.nic_events(), (std::vector<bool>{false, true, false, true, false, true}));
}

TEST(FaultProvider, TriggersStartFaultsOnce) {
  Bench bench({spec("at=op:12 nic=0 kind=blackhole for=1s"), spec("at=bytes:40% nic=1 kind=cable for=1s")});
  bench.provider.step(kStart);
  bench.provider.on_operation(11, kStart);
  bench.provider.on_bytes_moved(399'999, kStart);
  EXPECT_FALSE(bench.provider.cut({0}) || bench.provider.cut({1}));
  bench.provider.on_operation(12, kStart + 1s);
  EXPECT_TRUE(bench.provider.cut({0}));
  bench.provider.on_bytes_moved(400'001, kStart + 1s);
  EXPECT_TRUE(bench.provider.cut({1}));
  bench.provider.step(kStart + 2s);
  EXPECT_FALSE(bench.provider.cut({0}) || bench.provider.cut({1}));
  bench.provider.on_operation(13, kStart + 2s);
  EXPECT_FALSE(bench.provider.cut({0}));
}

TEST(FaultProvider, FaultsOfOtherServersAreIgnoredAndUnknownNicsRefused) {
  auto foreign = parse_fault("at=0 server=4 nic=0 kind=down");
  Bench bench({*foreign});
  bench.provider.step(kStart);
  EXPECT_FALSE(bench.provider.cut({0}));
  EXPECT_EQ(bench.provider.inject(*foreign, kStart).error().fault, Fault::kMisuse);
  EXPECT_EQ(bench.provider.inject(spec("at=0 nic=2 kind=down"), kStart).error().what,
            "fault 'at=0s server=3 nic=2 kind=down': server 3 has 2 NICs, numbered from 0");
  EXPECT_TRUE(FaultProvider::check({*foreign}, kHere, bench.inner.nics()));
}

TEST(FaultProvider, OverlappingFaultsAddUpAndHealOneByOne) {
  Bench bench;
  bench.provider.step(kStart);
  ASSERT_TRUE(bench.provider.inject(spec("at=0 nic=0 kind=blackhole for=3s"), kStart));
  ASSERT_TRUE(bench.provider.inject(spec("at=1s nic=0 kind=cable for=1s"), kStart));
  bench.provider.step(kStart + 1s);
  EXPECT_EQ(bench.nic_events(), (std::vector<bool>{false}));
  bench.provider.step(kStart + 2s);
  EXPECT_EQ(bench.nic_events(), (std::vector<bool>{true}));
  EXPECT_TRUE(bench.provider.cut({0}));
  bench.provider.step(kStart + 3s);
  EXPECT_FALSE(bench.provider.cut({0}));
  EXPECT_EQ(bench.deaf_nics, (std::vector<std::pair<int, bool>>{{0, true}, {0, false}}));
}

TEST(FaultProvider, FaultShorterThanAStepStillHappens) {
  Bench bench({spec("at=10ms nic=0 kind=down for=1us")});
  bench.provider.step(kStart);
  auto link = bench.open(0, kStart);
  bench.provider.step(kStart + 1s);
  EXPECT_EQ(link->cause(), Cause::kLocal);
  bench.provider.step(kStart + 2s);
  EXPECT_EQ(bench.nic_events(), (std::vector<bool>{false, true}));
}

TEST(FaultProvider, ThousandsOfRandomFaultsLeaveNothingBehind) {
  std::mt19937_64 random(11);
  Bench bench;
  bench.provider.step(kStart);
  std::deque<std::unique_ptr<Link>> links;
  Instant now = kStart;
  for (int i = 0; i < 5000; ++i, now += 5ms) {
    FaultSpec fault;
    fault.server = kHere;
    fault.nic.value = static_cast<std::uint8_t>(random() % 2);
    fault.kind = static_cast<FaultKind>(random() % 6);
    fault.rate_bytes_s = 1000 + random() % 1'000'000;
    fault.period = 1ms + Duration(random() % 10'000'000);
    fault.lasting = fault.kind == FaultKind::kReset ? Duration{} : Duration(1 + random() % 50'000'000);
    fault.at.time = Duration(random() % 20'000'000);
    ASSERT_TRUE(bench.provider.inject(fault, now));
    bench.inner.inbound.push_back({fault.nic});
    if (auto link = bench.provider.accept()) links.push_back(std::move(link));
    if (auto link = bench.provider.connect(fault.nic, {}, {}, now)) links.push_back(std::move(*link));
    for (auto& link : links) {
      if (link->state() != LinkState::kDown) (void)Bench::post(*link, 100);
      link->step(now, bench.sink);
      link->progress(now);
    }
    if (links.size() > 20) links.pop_front();
    if (i % 7 == 0) links.back()->drain_and_close(now, bench.sink);
    bench.provider.step(now);
    bench.nic_events();
  }
  bench.provider.step(now + 1s);
  bench.provider.step(now + 2s);
  EXPECT_EQ(bench.provider.waiting_or_active(), 0u);
  EXPECT_EQ(bench.provider.injected(), 5000u);
  EXPECT_FALSE(bench.provider.cut({0}) || bench.provider.cut({1}));
  links.clear();
  for (const auto& wire : bench.inner.wires) EXPECT_TRUE(wire->destroyed);
}

}  // namespace
}  // namespace r2ccl
