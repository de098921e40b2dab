#include "topology/discover/interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

namespace r2ccl {

namespace {

std::optional<Address> address_of(const sockaddr* raw) {
  if (raw == nullptr) return std::nullopt;
  if (raw->sa_family == AF_INET) {
    std::array<std::uint8_t, 4> b{};
    std::memcpy(b.data(), &reinterpret_cast<const sockaddr_in*>(raw)->sin_addr, 4);
    return Address::v4(b[0], b[1], b[2], b[3]);
  }
  if (raw->sa_family == AF_INET6) {
    Address address;
    std::memcpy(address.ip.data(), &reinterpret_cast<const sockaddr_in6*>(raw)->sin6_addr, 16);
    return address;
  }
  return std::nullopt;
}

std::optional<std::int64_t> read_number(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;
}

void read_sysfs(const std::filesystem::path& directory, Interface& interface) {
  // Virtual interfaces answer -1, or nothing at all.
  const std::int64_t speed_mbit_s = read_number(directory / "speed").value_or(0);
  if (speed_mbit_s > 0) interface.speed_bytes_s = static_cast<std::uint64_t>(speed_mbit_s) * 125'000;
  interface.numa_node = static_cast<int>(read_number(directory / "device" / "numa_node").value_or(-1));
  std::error_code error;
  const auto real = std::filesystem::canonical(directory, error);
  if (!error) interface.pci_path = pci_path_of(real.string());
}

std::vector<std::string_view> components(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const auto slash = path.find('/');
    if (slash != 0) parts.push_back(path.substr(0, slash));
    path = slash == std::string_view::npos ? std::string_view{} : path.substr(slash + 1);
  }
  return parts;
}

bool is_pci_root(std::string_view part) {
  return part.starts_with("pci");
}
// "0000:01:00.0"
bool is_pci_device(std::string_view part) {
  return part.size() >= 12 && part[4] == ':' && part[7] == ':' && part[part.size() - 2] == '.';
}

}  // namespace

std::vector<Interface> read_interfaces(const std::string& sysfs) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  std::map<std::string, Interface> by_name;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    Interface& interface = by_name[entry->ifa_name];
    interface.name = entry->ifa_name;
    interface.up = (entry->ifa_flags & IFF_UP) != 0;
    interface.carrier = (entry->ifa_flags & IFF_RUNNING) != 0;
    interface.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (const auto address = address_of(entry->ifa_addr)) interface.addresses.push_back(*address);
  }
  ::freeifaddrs(list);

  std::vector<Interface> interfaces;
  for (auto& [name, interface] : by_name) {
    read_sysfs(std::filesystem::path(sysfs) / "class" / "net" / name, interface);
    interfaces.push_back(std::move(interface));
  }
  return interfaces;
}

std::string pci_path_of(std::string_view device_path) {
  std::string path;
  for (const std::string_view part : components(device_path)) {
    if (path.empty() ? !is_pci_root(part) : !is_pci_device(part)) {
      if (path.empty()) continue;
      break;
    }
    if (!path.empty()) path += '/';
    path += part;
  }
  return path;
}

// Paths are root/port/…/device. Common root only: same root complex. A common port or bridge below it: same switch.
Distance distance_from(const MemoryPlace& place, const Interface& interface) {
  const auto here = components(place.pci_path);
  const auto there = components(interface.pci_path);
  const auto ends = std::mismatch(here.begin(), here.end(), there.begin(), there.end());
  const auto common = ends.first - here.begin();
  if (common >= 2) return Distance::kSameSwitch;
  if (common == 1) return Distance::kSameRoot;
  const bool known = place.numa_node >= 0 && interface.numa_node >= 0;
  return known && place.numa_node != interface.numa_node ? Distance::kOtherNode : Distance::kSameNode;
}

}  // namespace r2ccl
