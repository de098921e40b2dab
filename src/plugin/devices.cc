#include "plugin/devices.h"

#include <algorithm>

namespace r2ccl::plugin {
namespace {

int speed_of(const Nic& nic) {
  constexpr std::uint64_t kBytesPerMbit = 125'000;
  if (nic.speed_bytes_s == 0) return kUnknownSpeedMbit;
  return std::max(1, static_cast<int>(nic.speed_bytes_s / kBytesPerMbit));
}

std::string path_of(const Nic& nic, std::span<const Interface> interfaces) {
  const auto found = std::ranges::find(interfaces, nic.name, &Interface::name);
  if (found == interfaces.end() || found->pci_path.empty()) return {};
  return "/sys/devices/" + found->pci_path;
}

}  // namespace

std::vector<NetDevice> make_devices(std::span<const Nic> nics, std::span<const Interface> interfaces, bool pooled) {
  std::vector<NetDevice> devices;
  for (const Nic& nic : nics) {
    const std::uint64_t number = nic.id.value;
    devices.push_back({nic.name, path_of(nic, interfaces), number + 1, speed_of(nic), static_cast<int>(number)});
  }
  if (!pooled || devices.empty()) return devices;
  NetDevice all{"r2ccl", "", 1, 0, 0};
  for (const NetDevice& device : devices) {
    all.speed_mbit_s += device.speed_mbit_s;
    if (all.pci_path.empty()) all.pci_path = device.pci_path;
  }
  return {all};
}

}  // namespace r2ccl::plugin
