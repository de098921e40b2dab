#include "comm/agreement/health_map.h"

#include <gtest/gtest.h>

#include "comm/agreement/nic_watch.h"

namespace r2ccl {
namespace {

ProcessInfo member(std::uint64_t server, std::vector<std::uint64_t> speeds) {
  ProcessInfo info{.process = {1}, .server = {server}, .rank = 0, .host = "h" + std::to_string(server), .ports = {}};
  for (std::uint8_t nic = 0; nic < speeds.size(); ++nic) info.ports.push_back({{nic}, "n", {}, speeds[nic]});
  return info;
}

TEST(HealthMap, RanksServerByServerAreGpus) {
  const auto placement = place({member(5, {2, 2}), member(5, {2, 2}), member(1, {2, 2}), member(1, {2, 2})}, 9);
  EXPECT_EQ(placement.servers, 2u);
  EXPECT_EQ(placement.gpus, 2u);
  EXPECT_EQ(placement.nic_rate, std::vector<double>(4, 2));
}

TEST(HealthMap, OtherOrdersCountEveryRankAsAServerWithItsShareOfTheNics) {
  const auto placement = place({member(5, {2}), member(1, {2}), member(5, {2})}, 9);
  EXPECT_EQ(placement.servers, 3u);
  EXPECT_EQ(placement.gpus, 1u);
  EXPECT_EQ(placement.nic_rate, (std::vector<double>{1, 2, 1}));
}

TEST(HealthMap, MissingNicsHaveNoRateAndUnknownSpeedsOneOfTheirOwn) {
  const auto placement = place({member(0, {0, 0}), member(1, {0})}, 9);
  EXPECT_EQ(placement.nic_rate, (std::vector<double>{9, 9, 9, 0}));
  HealthMap map = all_healthy(placement);
  map.nic = {kWhole, 500, kWhole, kWhole};
  const Cluster cluster = cluster_of(placement, map, Fabric::kRouted, {});
  EXPECT_EQ(cluster.rate, (std::vector<double>{9, 4.5, 9, 0}));
  EXPECT_TRUE(validate(cluster));
  map.nic = {0, 0, kWhole, kWhole};
  EXPECT_EQ(cluster_of(placement, map, Fabric::kRouted, {}).rate[0], 9) << "a server without NICs is not planned for";
}

TEST(HealthMap, ServersOfOneMachineShareItsProcessorsAndUnlessOnLoopbackWhatItCanMove) {
  constexpr std::uint64_t kTold = 1'250'000'000;  // by a veth
  std::vector<ProcessInfo> members{member(0, {kTold}), member(1, {kTold})};
  const auto cluster = [&] {
    const Placement placement = place(members, 9);
    return cluster_of(placement, all_healthy(placement), Fabric::kRouted, {});
  };
  EXPECT_EQ(cluster().played, 1);
  EXPECT_EQ(cluster().rate, (std::vector<double>{kTold, kTold}));
  members[1].host = members[0].host;
  EXPECT_EQ(cluster().played, 2);
  EXPECT_TRUE(cluster().wired);
  EXPECT_EQ(cluster().rate, (std::vector<double>{kTold / 2, kTold / 2}));
  for (ProcessInfo& one : members) one.ports[0].speed_bytes_s = 8;
  EXPECT_EQ(cluster().rate, (std::vector<double>{8, 8})) << "slower than that: as told";
  for (ProcessInfo& one : members) one.ports[0].speed_bytes_s = kTold;
  for (ProcessInfo& one : members) one.ports[0].listen = Address::v4(127, 1, 0, 1);
  EXPECT_EQ(cluster().played, 2);
  EXPECT_FALSE(cluster().wired);
  EXPECT_EQ(cluster().rate, (std::vector<double>{kTold, kTold}));
}

constexpr Instant kJustNow{1000h};  // whenever that is

PathView path(std::uint8_t nic, PathState state, double rate, std::optional<Instant> measured_at = kJustNow) {
  return {.path = {{nic}, {nic}},
          .nic_here = {nic},
          .nic_there = {nic},
          .state = state,
          .epoch = {1},
          .rate_bytes_s = rate,
          .measured_at = measured_at,
          .in_flight_bytes = 0,
          .last_cause = Cause::kNone};
}
std::vector<Permille> look(NicWatch& watch, std::vector<std::vector<PathView>> sessions, Instant now,
                           const std::set<NicId>& without_carrier = {}) {
  const auto seen = watch.look(sessions, without_carrier, now);
  return {seen.begin(), seen.end()};
}

TEST(NicWatch, IsDownWhereNoPathIsUp) {
  NicWatch watch(3);
  const auto up = path(0, PathState::kUp, 1e9);
  const auto down = path(1, PathState::kFencing, 1e9);
  EXPECT_EQ(look(watch, {{up, down}}, {}), (std::vector<Permille>{kWhole, 0, kUnseen}));
  EXPECT_EQ(look(watch, {{up, down}, {up, path(1, PathState::kSuspect, 1e9)}}, {})[1], kWhole)
      << "the other end's fault";
  EXPECT_EQ(look(watch, {{up, path(1, PathState::kProbation, 1e9)}}, {})[1], 0) << "not trusted yet";
}

TEST(NicWatch, IsDownWhereNoPathEverOpensWhileAnotherNicsDo) {
  NicWatch watch(2);
  PathView dead = path(1, PathState::kOpening, 1e9);
  dead.epoch = {0};
  const auto up = path(0, PathState::kUp, 1e9);
  const Instant start = Instant{} + 1s, late = start + 10s;
  EXPECT_EQ(look(watch, {{path(0, PathState::kClosed, 1e9), dead}}, start)[1], kUnseen) << "nothing is up yet";
  EXPECT_EQ(look(watch, {{up, dead}}, late)[1], kUnseen) << "waited for from now on";
  EXPECT_EQ(look(watch, {{up, dead}}, late + NicWatch::kOpenTime - 1ns)[1], kUnseen);
  EXPECT_EQ(look(watch, {{up, dead}}, late + NicWatch::kOpenTime)[1], 0);
  EXPECT_EQ(look(watch, {{up, path(1, PathState::kUp, 1e9)}}, late + 2s)[1], kWhole) << "it does open after all";
}

TEST(NicWatch, IsDownAtOnceWithoutCarrierAlsoWhereNothingHasUsedIt) {
  NicWatch watch(3);
  EXPECT_EQ(look(watch, {}, {}, {{1}}), (std::vector<Permille>{kUnseen, 0, kUnseen}));
  EXPECT_EQ(look(watch, {{path(0, PathState::kUp, 1e9), path(1, PathState::kUp, 1e9)}}, {}, {{1}}),
            (std::vector<Permille>{kWhole, 0, kUnseen}))
      << "its paths have not been fenced yet";
  EXPECT_EQ(look(watch, {}, {}), (std::vector<Permille>{kUnseen, kUnseen, kUnseen})) << "it is back";
}

TEST(NicWatch, AnotherEndWithoutCarrierIsNoFaultOfTheNicHere) {
  NicWatch watch(2);
  const auto up = path(0, PathState::kUp, 1e9);
  PathView lost = path(1, PathState::kFencing, 1e9);
  EXPECT_EQ(look(watch, {{up, lost}}, {})[1], 0);
  lost.there_dark = true;
  EXPECT_EQ(look(watch, {{up, lost}}, {})[1], kUnseen);
  EXPECT_EQ(look(watch, {{up, lost}, {up, path(1, PathState::kFencing, 1e9)}}, {})[1], 0) << "another peer's is well";
}

TEST(NicWatch, IsSlowOnlyAfterASecondAndWellOnlyAfterOne) {
  NicWatch watch(2);
  const auto fast = path(0, PathState::kUp, 1e9);
  const auto slow = path(1, PathState::kUp, 3.7e8);
  Instant now{1h};
  EXPECT_EQ(look(watch, {{fast, slow}}, now)[1], kWhole);
  EXPECT_EQ(look(watch, {{fast, slow}}, now += 900ms)[1], kWhole);
  EXPECT_EQ(look(watch, {{fast, slow}}, now += 100ms)[1], 375);
  EXPECT_EQ(look(watch, {{fast, fast, path(1, PathState::kUp, 0.9e9)}}, now += 100ms)[1], 375);
  EXPECT_EQ(look(watch, {{fast, path(1, PathState::kUp, 0.9e9)}}, now += 1s)[1], kWhole);
}

TEST(NicWatch, FarBelowIsSlowSoonerAlsoWhenTheRateWavers) {
  NicWatch watch(2);
  const auto at = [&](double rate, Duration after) {
    return look(watch, {{path(0, PathState::kUp, 1e9), path(1, PathState::kUp, rate)}}, Instant{} + after)[1];
  };
  EXPECT_EQ(at(1e8, 0ms), kWhole);
  EXPECT_EQ(at(5e8, 100ms), kWhole) << "not quite slow, for a moment";
  EXPECT_EQ(at(1e8, 299ms), kWhole);
  EXPECT_EQ(at(5e8, 300ms), kWhole) << "not at this moment";
  EXPECT_EQ(at(1e8, 301ms), 125);
}

TEST(NicWatch, BelievesNoGuessedRate) {
  NicWatch watch(2);
  Instant now{1h};
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(
        look(watch, {{path(0, PathState::kUp, 1e9), path(1, PathState::kUp, 1e8, std::nullopt)}}, now += 100ms)[1],
        kWhole);
  }
}

TEST(NicWatch, WhatAPeerSawLongAgoExcusesNothing) {
  NicWatch watch(2);
  const Instant then{1h};
  const std::vector<PathView> used{path(0, PathState::kUp, 1e9), path(1, PathState::kUp, 1e8)};
  const std::vector<PathView> unused{path(0, PathState::kUp, 1e9, then), path(1, PathState::kUp, 1e9, then)};
  EXPECT_EQ(look(watch, {used, unused}, then + NicWatch::kFresh - 1ns)[1], kWhole) << "perhaps only that peer is far";
  EXPECT_EQ(look(watch, {used, unused}, then + NicWatch::kFresh)[1], kWhole);
  EXPECT_EQ(look(watch, {used, unused}, then + NicWatch::kFresh + NicWatch::kVerySlowTime)[1], 125);
  EXPECT_EQ(look(watch, {unused}, then + 1h)[1], 125) << "nothing new";
}

}  // namespace
}  // namespace r2ccl
