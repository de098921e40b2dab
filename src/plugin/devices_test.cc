#include "plugin/devices.h"

#include <gtest/gtest.h>

namespace r2ccl::plugin {
namespace {

std::vector<Nic> three_nics() {
  return {{.id = {0}, .name = "eth0", .address = Address::v4(10, 0, 0, 1), .speed_bytes_s = 0},
          {.id = {1}, .name = "eth1", .address = Address::v4(10, 0, 1, 1), .speed_bytes_s = 12'500'000'000},
          {.id = {2}, .name = "eth2", .address = Address::v4(10, 0, 2, 1), .speed_bytes_s = 25'000'000'000}};
}
std::vector<Interface> their_interfaces() {
  std::vector<Interface> all(2);
  all[0].name = "eth1";
  all[0].pci_path = "pci0000:00/0000:00:01.0/0000:01:00.0";
  all[1].name = "eth2";
  all[1].pci_path = "pci0000:80/0000:80:01.0/0000:81:00.0";
  return all;
}

TEST(NetDevices, PooledOnesHaveTheSpeedOfAllAndAPlace) {
  const auto devices = make_devices(three_nics(), their_interfaces(), true);
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].speed_mbit_s, 10'000 + 100'000 + 200'000);
  EXPECT_EQ(devices[0].pci_path, "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0");
}

TEST(NetDevices, OnePerNicHasTheNicsOwn) {
  const auto devices = make_devices(three_nics(), their_interfaces(), false);
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[0].name, "eth0");
  EXPECT_EQ(devices[0].pci_path, "");
  EXPECT_EQ(devices[2].pci_path, "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0");
  EXPECT_EQ(devices[2].speed_mbit_s, 200'000);
  EXPECT_EQ(devices[2].rail, 2);
  EXPECT_NE(devices[1].guid, devices[2].guid);
}

}  // namespace
}  // namespace r2ccl::plugin
