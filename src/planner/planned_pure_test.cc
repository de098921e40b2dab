// Plans are pure: equal inputs give equal schedules, a rank's part is the same alone, and text loses nothing.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sstream>

#include "schedule/check/check.h"
#include "schedule/text/text.h"
#include "testing/random_cluster.h"

namespace r2ccl {
namespace {

Cluster any_cluster(std::uint32_t servers_end) {
  const auto servers = *rc::gen::inRange<std::uint32_t>(1, servers_end);
  const auto gpus = *rc::gen::inRange<std::uint32_t>(1, 5);
  Cluster cluster = Cluster::uniform(servers, gpus, *rc::gen::inRange<std::uint32_t>(1, 9), 50e9);
  cluster.fabric = *rc::gen::element(Fabric::kRouted, Fabric::kRails);
  const auto faults = *rc::gen::inRange<std::uint32_t>(0, servers + 1);
  for (std::uint32_t i = 0; i < faults; ++i) {
    const auto server = *rc::gen::inRange<std::uint32_t>(0, servers);
    const auto nic = *rc::gen::inRange<std::uint32_t>(0, cluster.nics);
    const auto percent_left = *rc::gen::inRange<std::uint32_t>(0, 100);
    if (percent_left % 2 == 0) {
      (void)lose_nic(cluster, server, nic);  // refused for the last one of a server
    } else if (cluster.nic(server, nic) > 0) {
      (void)slow_nic(cluster, server, nic, percent_left / 100.0);
    }
  }
  return cluster;
}

Request any_request(Collective collective, const Cluster& cluster) {
  const std::uint64_t bytes = *rc::gen::inRange<std::uint64_t>(0, 1 << 20) << *rc::gen::inRange(0, 13);
  return {.collective = collective, .bytes = bytes, .root = *rc::gen::inRange<std::uint32_t>(0, cluster.ranks())};
}

// With a fixed seed, so that a run says the same everywhere; a failure is shrunk to a small cluster.
template <class Property>
void expect_always(std::uint32_t number, Property property) {
  rc::detail::TestParams params;
  params.seed = 7;
  params.maxSuccess = static_cast<int>(cases(number));
  const auto result = rc::detail::checkTestable(property, rc::detail::TestMetadata{}, params);
  if (result.template is<rc::detail::SuccessResult>()) return;
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  FAIL() << text.str();
}

TEST(PlannedPure, EqualInputsGiveEqualSchedulesAndEachRankAlone) {
  expect_always(2000, [] {
    const auto row = *rc::gen::inRange<std::size_t>(0, algorithms().size());
    const bool automatic = *rc::gen::inRange(0, 4) == 0;
    const Algorithm& algorithm = algorithms()[row];
    const Cluster cluster = any_cluster(9);
    const Request request = any_request(algorithm.collective, cluster);
    const std::string_view name = automatic ? "auto" : algorithm.name;
    const Cluster same = cluster;  // elsewhere in memory
    const Result<Plan> first = plan(name, request, cluster);
    const Result<Plan> second = plan(name, Request(request), same);
    RC_ASSERT(first.has_value() == second.has_value());
    if (!first) {
      RC_ASSERT(first.error().what == second.error().what);
      return;
    }
    RC_ASSERT(first->predicted_s == second->predicted_s);
    const Schedule schedule = first->schedule();
    RC_ASSERT(schedule == second->schedule());
    for (std::uint32_t rank = schedule.header.ranks; rank-- > 0;) {
      RC_ASSERT(second->lanes(rank) == schedule.lanes[rank]);
    }
  });
}

TEST(PlannedPure, PrintedAndParsedASmallScheduleIsTheSame) {
  expect_always(1000, [] {
    const Algorithm& algorithm = algorithms()[*rc::gen::inRange<std::size_t>(0, algorithms().size())];
    const Cluster cluster = any_cluster(5);
    const Result<Plan> planned = plan(algorithm.name, any_request(algorithm.collective, cluster), cluster);
    if (!planned) return;
    const Schedule schedule = planned->schedule();
    const Result<Schedule> parsed = parse_schedule(print(schedule));
    if (!parsed) RC_FAIL(parsed.error().what);
    RC_ASSERT(*parsed == schedule);
  });
}

// Where a refusal of the checker shows up here too, it comes with the smallest cluster that has it.
TEST(PlannedPure, AutoIsProven) {
  expect_always(1500, [] {
    const Collective collective = algorithms()[*rc::gen::inRange<std::size_t>(0, algorithms().size())].collective;
    const Cluster cluster = any_cluster(8);
    const Result<Plan> planned = plan("auto", any_request(collective, cluster), cluster);
    if (!planned) RC_SUCCEED("not joined");
    const Result<CheckReport> report = check(planned->schedule());
    if (!report) RC_FAIL(report.error().what);
  });
}

}  // namespace
}  // namespace r2ccl
