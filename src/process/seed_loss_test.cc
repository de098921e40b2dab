// Goal: whatever R2CC_MODE says, every process of a job comes to the same NIC, and never to more than one.

#include "process/seed_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace r2ccl {
namespace {

using testing::HasSubstr;

// `servers[r]`: of rank r.
std::vector<ProcessInfo> members_on(const std::vector<std::uint64_t>& servers, std::uint8_t nics) {
  std::vector<ProcessInfo> members;
  for (const std::uint64_t server : servers) {
    ProcessInfo member;
    member.server = {server};
    member.host = "host" + std::to_string(server);
    for (std::uint8_t nic = 0; nic < nics; ++nic) member.ports.push_back({{nic}, "eth" + std::to_string(nic), {}, 0});
    members.push_back(std::move(member));
  }
  return members;
}

Settings settings_of(std::string_view mode) {
  const std::string line = "R2CC_MODE=" + std::string(mode);
  return Settings::parse(std::vector<std::string_view>{line}).value();
}

TEST(SeedLoss, IsTheSecondNicOfTheServerOfRank0ForGood) {
  for (const char* mode : {"1", "2", "3"}) {
    for (const auto& servers : {std::vector<std::uint64_t>{7, 3}, {7, 7, 3, 3}, {7, 3, 7, 3}, {7, 3, 3, 3}}) {
      const PlannedLoss loss = plan_loss(settings_of(mode), members_on(servers, 2));
      ASSERT_TRUE(loss.fault) << loss.sentence;
      EXPECT_EQ(to_text(*loss.fault), "at=0s server=7 nic=1 kind=cable") << "no 'for'";
    }
  }
}

TEST(SeedLoss, SaysWhatAndWhen) {
  const auto members = members_on({0, 1}, 4);
  const std::string first = plan_loss(settings_of("1"), members).sentence;
  EXPECT_THAT(first,
              HasSubstr("R2CC_MODE=1: NIC 1 (eth1) of rank 0's server, host0, loses its cable in the middle of a "
                        "call"));
  EXPECT_THAT(first, HasSubstr("R2CCL_MODE=repair"));
  EXPECT_THAT(plan_loss(settings_of("3"), members).sentence, HasSubstr("before the first call"));
}

TEST(SeedLoss, IsNothingWhereNothingCouldTakeOver) {
  const PlannedLoss one_nic = plan_loss(settings_of("2"), members_on({0, 1}, 1));
  EXPECT_FALSE(one_nic.fault);
  EXPECT_EQ(one_nic.sentence, "R2CC_MODE=2: no NIC is lost, because rank 0's server has no second one.");
  const PlannedLoss one_server = plan_loss(settings_of("2"), members_on({5, 5, 5}, 4));
  EXPECT_FALSE(one_server.fault);
  EXPECT_EQ(one_server.sentence, "R2CC_MODE=2: no NIC is lost, because all ranks are on one server.");
}

TEST(SeedLoss, TheMiddleIsThatOfALargeCallOrOfTheTenth) {
  EXPECT_FALSE(is_middle({1, 499'999}, kLargeCallBytes));
  EXPECT_TRUE(is_middle({1, 500'000}, kLargeCallBytes));
  EXPECT_FALSE(is_middle({1, 1'000'000}, kLargeCallBytes - 1)) << "a barrier, say";
  EXPECT_FALSE(is_middle({9, 1'000'000}, 8));
  EXPECT_TRUE(is_middle({10, 500'000}, 8));
  EXPECT_FALSE(is_middle({10, 0}, 8)) << "it has only begun";
}

}  // namespace
}  // namespace r2ccl
