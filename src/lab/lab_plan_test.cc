#include "lab/lab_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace r2ccl::lab {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t kInterfaceNameMax = 15;  // the kernel's IFNAMSIZ, without its last zero

LabPlan largest(Fabric fabric) {
  return {.name = "big", .servers = kServersMax, .nics = kRailsMax, .rate_bytes_s = kRateMax, .fabric = fabric};
}

TEST(LabPlan, EveryNameAndAddressIsTakenOnce) {
  for (const auto& [fabric, ipv6] :
       {std::pair(Fabric::kRails, false), {Fabric::kRouted, false}, {Fabric::kRouted, true}}) {
    LabPlan plan = largest(fabric);
    plan.ipv6 = ipv6;
    const std::vector<std::string> made = bridges(plan);
    std::set<std::string> in_switch(made.begin(), made.end());
    std::set<Address> addresses;
    for (std::uint64_t server = 0; server < plan.servers; ++server) {
      std::set<std::string> in_server;
      for (const Cable& cable : cables(plan, server)) {
        EXPECT_TRUE(in_switch.insert(cable.port).second) << cable.port;
        EXPECT_TRUE(in_server.insert(cable.nic).second) << cable.nic;
        EXPECT_TRUE(addresses.insert(cable.address).second) << to_text(cable.address);
        EXPECT_EQ(std::ranges::count(made, cable.bridge), 1) << cable.bridge;
        EXPECT_LE(cable.port.size(), kInterfaceNameMax);
        EXPECT_LE(cable.nic.size(), kInterfaceNameMax);
        EXPECT_EQ(cable.address.ip[ipv6 ? 0 : 12], ipv6 ? 0xfd : 10) << "inside the lab's range";
        EXPECT_EQ(cable.link_local.has_value(), ipv6);
        if (!ipv6) continue;
        EXPECT_TRUE(cable.link_local->is_link_local());
        EXPECT_TRUE(addresses.insert(*cable.link_local).second) << to_text(*cable.link_local);
      }
      EXPECT_EQ(in_server.size(), plan.nics + 1);
    }
    const std::vector<std::string> names = namespaces(plan);
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), plan.servers + 1);
  }
}

TEST(LabPlan, RailsAreApartAndARoutedFabricIsOne) {
  LabPlan plan{.nics = 3};
  plan.fabric = Fabric::kRails;
  EXPECT_THAT(bridges(plan), ElementsAre("mgmt", "rail0", "rail1", "rail2"));
  EXPECT_FALSE(cables(plan, 1)[2].table) << "nothing leads from a rail to another";
  plan.fabric = Fabric::kRouted;
  EXPECT_THAT(bridges(plan), ElementsAre("mgmt", "spine"));
  EXPECT_NE(cables(plan, 1)[1].table, cables(plan, 1)[2].table) << "what is sent from a NIC leaves by it";
}

TEST(LabPlan, NamespacesOfLabsDoNotMeet) {
  std::set<std::string> seen;
  for (const char* name : {"a", "a-s0", "a-switch", "b", "a-s"}) {
    for (const std::string& one : namespaces({.name = name, .servers = 12}))
      EXPECT_TRUE(seen.insert(one).second) << one;
  }
}

TEST(LabPlan, ServersHaveNames) {
  const LabPlan plan{.servers = 2, .nics = 2, .ipv6 = true};
  EXPECT_THAT(host_names({.servers = 2, .nics = 2}), HasSubstr("\n10.10.0.2 server1\n10.250.0.2 server1-mgmt\n"));
  EXPECT_THAT(host_names(plan), HasSubstr("\nfd00:0:0:a::1 server0\nfd00:0:0:fa::1 server0-mgmt\n"));
}

TEST(LabPlan, TheManagementNetworkIsNotShaped) {
  const std::vector<Cable> all = cables({.nics = 2}, 0);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].rate_bytes_s, 62'500'000u);
  EXPECT_EQ(all[2].nic, kManagementNic);
  EXPECT_EQ(all[2].rate_bytes_s, 0u);
}

TEST(LabPlan, WhatCanNotBeIsRefusedWithASentence) {
  EXPECT_TRUE(check(largest(Fabric::kRails)));
  EXPECT_THAT(check({.servers = 0}).error().what, HasSubstr("0 servers"));
  EXPECT_THAT(check({.servers = 251}).error().what, HasSubstr("251 servers"));
  EXPECT_THAT(check({.nics = 17}).error().what, HasSubstr("17 NICs"));
  EXPECT_THAT(check({.rate_bytes_s = kRateMin - 1}).error().what, HasSubstr("rate"));
  EXPECT_THAT(check({.rate_bytes_s = kRateMax + 1}).error().what, HasSubstr("rate"));
  for (const char* name : {"", "../lab", "a/b", "a b", "a.b", "123456789012345678901234567890123"})
    EXPECT_EQ(check_name(name).error().fault, Fault::kMisuse) << name;
}

// The kernel holds the time to fill a bucket in 32 bits of 64 ns, and libnl in an int.
TEST(LabPlan, EveryRateCanBeShaped) {
  for (std::uint64_t rate = 125; rate <= kRateMax; rate = rate * 3 / 2) {
    const Shape shape = shape_of(rate);
    EXPECT_LT(static_cast<double>(shape.burst_bytes) / static_cast<double>(rate) * 1e9 / 64, 2147483647.0) << rate;
    EXPECT_GE(shape.burst_bytes, 2000u) << "a packet must fit";
    EXPECT_GT(shape.limit_bytes, shape.burst_bytes);
    EXPECT_LT(shape.limit_bytes, 2147483647u);
    if (rate >= kRateMin) {
      EXPECT_GE(shape.burst_bytes, 160u * 1024) << rate;
    }
  }
}

TEST(LabState, WhatIsWrittenIsReadAgain) {
  LabState state{.plan = largest(Fabric::kRails), .process = 4711, .kept = false};
  EXPECT_EQ(parse_state(to_text(state)).value(), state);
  state = {.plan = {.name = "x-1", .ipv6 = true}, .process = 1, .kept = true};
  EXPECT_EQ(parse_state(to_text(state)).value(), state);
}

TEST(LabState, ADamagedFileIsNotBelieved) {
  const std::string text = to_text(LabState{});
  for (std::size_t length = 0; length + 1 < text.size(); ++length) {
    const auto state = parse_state(text.substr(0, length));
    EXPECT_FALSE(state) << text.substr(0, length);
  }
  EXPECT_FALSE(parse_state(text + "colour=red\n"));
  std::string escaped = text;
  escaped.replace(escaped.find("name=lab"), 8, "name=../x");
  EXPECT_FALSE(parse_state(escaped));
}

}  // namespace
}  // namespace r2ccl::lab
