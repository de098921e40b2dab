#include "topology/discover/meeting_place.h"

#include <gtest/gtest.h>

namespace r2ccl {
namespace {

Address at(const char* text) {
  return Address::parse(text).value();
}

Nic nic(std::uint8_t id, const char* name, const char* address) {
  return {.id = {id}, .name = name, .address = at(address)};
}

Interface interface(const char* name, std::vector<const char*> addresses) {
  Interface made;
  made.name = name;
  for (const char* address : addresses) made.addresses.push_back(at(address));
  return made;
}

// A server with two data NICs and a management network.
const std::vector<Nic> kNics = {nic(0, "eth0", "10.0.0.1"), nic(1, "eth1", "10.1.0.1")};
const std::vector<Interface> kInterfaces = {
    interface("lo", {"127.0.0.1", "::1"}),
    interface("eth0", {"10.0.0.1", "2001:db8::1", "fe80::1"}),
    interface("eth1", {"10.1.0.1", "fe80::1"}),
    interface("mgmt0", {"10.250.0.1"}),
};
constexpr NicId kManagement{2};

// By a place of one address; `source`: where a connection to it comes from, "" for nowhere.
WayToPlace way(const char* place, const char* source, const std::vector<Nic>& nics = kNics) {
  const std::vector<std::optional<Address>> sources{*source != 0 ? std::optional(at(source)) : std::nullopt};
  return way_to_place({place, {at(place)}, false}, nics, kInterfaces, sources).value();
}

TEST(WayToPlace, AnAddressOfADataNicIsHostedAndDialledThere) {
  EXPECT_EQ(way("10.0.0.1:5", "10.0.0.1").host, NicId{0});
  EXPECT_EQ(way("10.1.0.1:5", "10.1.0.1").host, NicId{1});
  EXPECT_EQ(way("10.1.0.1:5", "10.1.0.1").dial, NicId{1});
  EXPECT_EQ(way("10.1.0.9:5", "10.1.0.1").dial, NicId{1}) << "at a member";
  EXPECT_EQ(way("10.1.0.9:5", "10.1.0.1").host, std::nullopt) << "it is another server's";
}

TEST(WayToPlace, AnAddressThatIsNoDataNicsIsTheManagementNics) {
  const WayToPlace host = way("10.250.0.1:5", "10.250.0.1");
  EXPECT_EQ(host.host, kManagement);
  EXPECT_EQ(host.dial, kManagement);
  EXPECT_EQ(host.management.id, kManagement);
  EXPECT_EQ(host.management.address, at("10.250.0.1")) << "nowhere else is listened";
  const WayToPlace member = way("10.250.0.9:5", "10.250.0.1");
  EXPECT_EQ(member.host, std::nullopt);
  EXPECT_EQ(member.dial, kManagement);
  EXPECT_TRUE(member.management.address.is_unspecified()) << "dialled by whichever way the routes say";
  EXPECT_EQ(way("10.250.0.9:5", "").dial, kManagement) << "a route may come";
  EXPECT_EQ(way("[2001:db8::1]:5", "2001:db8::1").host, kManagement) << "data goes over the NIC's IPv4 address";
}

TEST(WayToPlace, LoopbackPlacesAreDataOnlyWhereNicsAreLoopback) {
  const std::vector<Nic> loopback = {nic(0, "127.10.0.2", "127.10.0.2"), nic(1, "127.11.0.2", "127.11.0.2")};
  EXPECT_EQ(way("127.10.0.1:5", "127.0.0.1", loopback).dial, NicId{0});
  EXPECT_EQ(way("127.11.0.2:5", "127.0.0.1", loopback).host, NicId{1});
  EXPECT_EQ(way("127.12.0.1:5", "127.0.0.1", loopback).host, kManagement);
  EXPECT_EQ(way("127.0.0.1:5", "127.0.0.1").dial, kManagement);
  EXPECT_EQ(way("[::1]:5", "::1", loopback).dial, kManagement) << "they have no IPv6";
}

TEST(WayToPlace, ALinkLocalAddressIsOfItsZone) {
  const std::vector<Nic> nics = {nic(0, "eth0", "fe80::1"), nic(1, "eth1", "fe80::1")};
  EXPECT_EQ(way("[fe80::1%eth1]:5", "fe80::1%eth1", nics).host, NicId{1});
  EXPECT_EQ(way("[fe80::1%eth1]:5", "fe80::1", kNics).host, kManagement);
  EXPECT_STREQ(way("[fe80::1%eth1]:5", "fe80::1", kNics).management.address.zone.data(), "eth1");
  EXPECT_EQ(way("[fe80::7%mgmt0]:5", "fe80::9%mgmt0").dial, kManagement);
  EXPECT_EQ(way("[fe80::7]:5", "", nics).dial, NicId{0}) << "without a zone each data NIC may be meant";
  const std::vector<Nic> global = {nic(0, "eth0", "2001:db8::1")};
  EXPECT_STREQ(way("[fe80::1]:5", "", global).management.address.zone.data(), "eth0") << "the first that has it";
  const std::vector<std::optional<Address>> none(1);
  const auto bad = way_to_place({"x", {at("[fe80::7%eth9]:5")}, false}, kNics, kInterfaces, none);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().what, "the ranks are to meet at [fe80::7%eth9]:5, but this server has no interface eth9");
  const auto zoneless = way_to_place({"x", {at("[fe80::7]:5")}, false}, kNics, kInterfaces, none);
  ASSERT_FALSE(zoneless);
  EXPECT_NE(zoneless.error().what.find("as in fe80::1%eth0"), std::string::npos) << zoneless.error().what;
  EXPECT_TRUE(way_to_place({"x", {at("[fe80::7%3]:5")}, false}, kNics, kInterfaces, none)) << "a number";
}

// Other servers may know the name by another address of this one.
TEST(WayToPlace, ANameIsListenedForEverywhere) {
  const auto named = [](std::vector<Address> addresses) {
    const std::vector<std::optional<Address>> sources(addresses.size(), at("10.0.0.1"));
    return way_to_place({"node7", std::move(addresses), true}, kNics, kInterfaces, sources).value();
  };
  for (const char* known_as : {"10.0.0.1:5", "127.0.1.1:5", "10.250.0.1:5"}) {
    EXPECT_EQ(named({at(known_as)}).host, kManagement) << known_as;
    EXPECT_TRUE(named({at(known_as)}).management.address.is_unspecified()) << known_as;
  }
  EXPECT_EQ(named({at("192.0.2.1:5")}).host, std::nullopt);
  EXPECT_EQ(named({at("192.0.2.1:5"), at("10.0.0.1:5")}).host, kManagement);
}

TEST(WayToPlace, OneAddressThatNoDataNicLeadsToTakesTheManagementNic) {
  const MeetingPlace place{"node7", {at("10.0.0.9:5"), at("10.250.0.9:5")}, true};
  std::vector<std::optional<Address>> sources{at("10.0.0.1"), at("10.250.0.1")};
  EXPECT_EQ(way_to_place(place, kNics, kInterfaces, sources)->dial, kManagement);
  sources[1] = at("10.1.0.1");
  EXPECT_EQ(way_to_place(place, kNics, kInterfaces, sources)->dial, NicId{0});
}

}  // namespace
}  // namespace r2ccl
