#include "topology/discover/discover.h"

#include <gtest/gtest.h>

#include "topology/discover/interface_filter.h"

namespace r2ccl {
namespace {

Interface make(std::string name, std::vector<Address> addresses, bool up = true, bool loopback = false) {
  Interface interface;
  interface.name = std::move(name);
  interface.addresses = std::move(addresses);
  interface.up = up;
  interface.carrier = up;
  interface.loopback = loopback;
  return interface;
}

Address v6(std::uint8_t first, std::uint8_t second) {
  Address address;
  address.ip[0] = first;
  address.ip[1] = second;
  address.ip[15] = 9;
  return address;
}

std::vector<Interface> machine() {
  std::vector<Interface> all{
      make("lo", {Address::v4(127, 0, 0, 1)}, true, true),
      make("ib0", {v6(0xfe, 0x80), v6(0x20, 0x01)}),
      make("eth1", {v6(0xfe, 0x80), Address::v4(10, 0, 1, 1)}),
      make("eth0", {Address::v4(10, 0, 0, 1)}),
      make("eth10", {Address::v4(10, 0, 10, 1)}, false),
      make("docker0", {Address::v4(172, 17, 0, 1)}),
      make("bare0", {}),
  };
  return all;
}

std::vector<std::string> names(const NicRequest& request) {
  const auto nics = select_nics(request, machine());
  std::vector<std::string> out;
  if (!nics) return {nics.error().what};
  for (const Nic& nic : *nics) out.push_back(nic.name);
  return out;
}

using Names = std::vector<std::string>;

TEST(Discover, FoundNicsAreUpNotLoopbackHaveAnAddressAndAreSortedByName) {
  EXPECT_EQ(names({}), (Names{"eth0", "eth1", "ib0"}));
  const auto nics = select_nics({}, machine());
  ASSERT_TRUE(nics);
  for (std::size_t i = 0; i < nics->size(); ++i) EXPECT_EQ((*nics)[i].id.value, i);
}

TEST(Discover, Ipv4IsPreferredThenRoutableIpv6) {
  const auto nics = select_nics({}, machine());
  ASSERT_TRUE(nics);
  EXPECT_EQ((*nics)[1].address, Address::v4(10, 0, 1, 1));
  EXPECT_EQ((*nics)[2].address, v6(0x20, 0x01));
}

TEST(Discover, FilterFollowsTheRulesOfNcclSocketIfname) {
  EXPECT_EQ(names({.filter = "eth"}), (Names{"eth0", "eth1"}));
  EXPECT_EQ(names({.filter = "ib,eth1"}), (Names{"eth1", "ib0"}));
  EXPECT_EQ(names({.filter = "=eth1"}), (Names{"eth1"}));
  EXPECT_EQ(names({.filter = "=eth"}), (Names{"no interface that is up and has an address matches '=eth'"}));
  EXPECT_EQ(names({.filter = "^eth"}), (Names{"docker0", "ib0"}));
  EXPECT_EQ(names({.filter = "^=eth1"}), (Names{"docker0", "eth0", "ib0"}));
  EXPECT_EQ(names({.filter = "lo"}), (Names{"lo"}));
  EXPECT_FALSE(InterfaceFilter::parse("eth,,ib"));
  EXPECT_FALSE(InterfaceFilter::parse("^"));
}

TEST(Discover, ListKeepsItsOrderAndTakesNamesAndAddresses) {
  EXPECT_EQ(names({.list = "eth1, 10.0.0.1"}), (Names{"eth1", "eth0"}));
}

TEST(Discover, ALinkLocalAddressIsThatOfItsZone) {
  const std::string text = to_text(v6(0xfe, 0x80));
  EXPECT_EQ(names({.list = text + "%eth1," + text + "%ib0"}), (Names{"eth1", "ib0"}));
  EXPECT_EQ(names({.list = text + "%eth0"}), (Names{"no interface of this machine has the address " + text + "%eth0"}));
}

TEST(Discover, LoopbackAddressesAreNicsOfTheirOwn) {
  EXPECT_EQ(names({.list = "127.0.0.1,127.0.0.2,127.1.2.3"}), (Names{"127.0.0.1", "127.0.0.2", "127.1.2.3"}));
}

TEST(Discover, ListedNicThatIsDownIsKeptWithoutCarrier) {
  const auto nics = select_nics({.list = "eth0,eth10"}, machine());
  ASSERT_TRUE(nics);
  EXPECT_TRUE((*nics)[0].carrier);
  EXPECT_FALSE((*nics)[1].carrier);
}

TEST(Discover, BadListsGetOneSentence) {
  EXPECT_EQ(names({.list = "eth0,eth0"}), (Names{"the NIC list 'eth0,eth0' names eth0 twice"}));
  EXPECT_EQ(names({.list = "eth7"}), (Names{"'eth7' is neither an interface of this machine nor an address"}));
  EXPECT_EQ(names({.list = "10.9.9.9"}), (Names{"no interface of this machine has the address 10.9.9.9"}));
  EXPECT_EQ(names({.list = "bare0"}), (Names{"the interface bare0 has no address"}));
  EXPECT_EQ(names({.list = "eth0,"}), (Names{"the NIC list 'eth0,' has an empty name"}));
  EXPECT_EQ(names({.list = "127.0.0.1:80"}), (Names{"'127.0.0.1:80' names a NIC and takes no port"}));
}

TEST(Discover, ASpeedThatIsSetIsThatOfEveryNic) {
  const std::string_view lines[] = {"R2CCL_NICS=127.0.0.1,127.0.0.2", "R2CCL_NIC_SPEED=8kbit"};
  const auto nics = select_nics(nic_request(Settings::parse(lines).value()), machine()).value();
  ASSERT_EQ(nics.size(), 2u);
  for (const Nic& nic : nics) EXPECT_EQ(nic.speed_bytes_s, 1000u);
}

TEST(Discover, TooManyNicsAreRefused) {
  std::string list = "127.0.0.1";
  for (std::size_t i = 2; i <= kNicsMax + 1; ++i) list += ",127.0.0." + std::to_string(i);
  EXPECT_FALSE(select_nics({.list = list}, machine()));
}

TEST(Discover, PciPathIsTheChainOfBridges) {
  EXPECT_EQ(pci_path_of("/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/net/eth0"),
            "pci0000:00/0000:00:01.0/0000:01:00.0");
  EXPECT_EQ(pci_path_of("/sys/devices/virtual/net/lo"), "");
}

TEST(Discover, DistanceGoesBySwitchThenRootThenNode) {
  const MemoryPlace place{.numa_node = 0, .pci_path = "pci0000:00/0000:00:01.0/0000:01:00.0"};
  Interface interface;
  interface.pci_path = "pci0000:00/0000:00:01.0/0000:02:00.0";
  EXPECT_EQ(distance_from(place, interface), Distance::kSameSwitch);
  interface.pci_path = "pci0000:00/0000:00:02.0/0000:03:00.0";
  EXPECT_EQ(distance_from(place, interface), Distance::kSameRoot);
  interface.pci_path = "pci0000:80/0000:80:02.0/0000:81:00.0";
  interface.numa_node = 0;
  EXPECT_EQ(distance_from(place, interface), Distance::kSameNode);
  interface.numa_node = 1;
  EXPECT_EQ(distance_from(place, interface), Distance::kOtherNode);
  EXPECT_EQ(distance_from({}, interface), Distance::kSameNode);
}

TEST(Discover, SystemReadFindsLoopback) {
  bool found = false;
  for (const Interface& interface : read_interfaces()) found |= interface.loopback;
  EXPECT_TRUE(found);
  EXPECT_TRUE(discover_nics({.list = "127.0.0.1,127.0.0.2"}));
}

}  // namespace
}  // namespace r2ccl
