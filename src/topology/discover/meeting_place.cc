#include "topology/discover/meeting_place.h"

#include <fmt/format.h>

#include <algorithm>

namespace r2ccl {
namespace {

std::string_view zone_of(const Address& address) {
  return address.zone.data();
}

bool needs_zone(const Address& address) {
  return address.is_link_local() && zone_of(address).empty();
}

// True: the interface has this address. Link-local addresses repeat from network to network, so their zone counts too.
bool owns(std::string_view interface, const Address& own, const Address& address) {
  return own.ip == address.ip && (zone_of(address).empty() || zone_of(address) == interface);
}

bool is_number(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

const Nic* nic_with(const Address& address, std::span<const Nic> nics) {
  const auto found = std::ranges::find_if(nics, [&](const Nic& nic) { return owns(nic.name, nic.address, address); });
  return found == nics.end() ? nullptr : &*found;
}

// The address in its zone at this server; nullopt: it is not this server's.
std::optional<Address> own_address(const Address& address, std::span<const Interface> interfaces) {
  if (address.is_loopback()) return address;
  for (const Interface& interface : interfaces) {
    for (const Address& own : interface.addresses) {
      if (owns(interface.name, own, address)) return own.is_link_local() ? own.in_zone(interface.name) : own;
    }
  }
  return std::nullopt;
}

// The data NIC that leads to this address of the place; null: none does.
const Nic* nic_towards(const Address& address, const std::optional<Address>& source, std::span<const Nic> nics) {
  const auto of_its_family =
      std::ranges::find_if(nics, [&](const Nic& nic) { return nic.address.is_v4() == address.is_v4(); });
  const bool all_loopback = std::ranges::all_of(nics, [](const Nic& nic) { return nic.address.is_loopback(); });
  // An address that needs a zone and has none may belong to any NIC's network, so any NIC will do.
  const bool any_will_do = (address.is_loopback() && all_loopback) || needs_zone(address);
  if (any_will_do && of_its_family != nics.end()) return &*of_its_family;
  return source ? nic_with(*source, nics) : nullptr;
}

Status check_zone(const Address& address, std::span<const Nic> nics, std::span<const Interface> interfaces) {
  const std::string_view zone = zone_of(address);
  const bool v6_nics = std::ranges::any_of(nics, [](const Nic& nic) { return !nic.address.is_v4(); });
  if (needs_zone(address) && !v6_nics) {
    return fail(Fault::kMisuse, fmt::format("the ranks are to meet at {}, a link-local address: say by which interface "
                                            "it is reached, as in fe80::1%eth0",
                                            to_text(address)));
  }
  if (zone.empty() || is_number(zone) || std::ranges::find(interfaces, zone, &Interface::name) != interfaces.end())
    return {};
  return fail(Fault::kMisuse,
              fmt::format("the ranks are to meet at {}, but this server has no interface {}", to_text(address), zone));
}

}  // namespace

Result<WayToPlace> way_to_place(const MeetingPlace& place, std::span<const Nic> data_nics,
                                std::span<const Interface> interfaces,
                                std::span<const std::optional<Address>> sources) {
  for (const Address& address : place.addresses) {
    if (const Status zoned = check_zone(address, data_nics, interfaces); !zoned) return std::unexpected(zoned.error());
  }
  WayToPlace way;
  way.management.id = {static_cast<std::uint8_t>(data_nics.back().id.value + 1)};
  way.management.name = kManagementNicName;
  for (const Address& address : place.addresses) {
    const std::optional<Address> own = own_address(address, interfaces);
    if (!own || way.host) continue;
    const Nic* const nic = place.named ? nullptr : nic_with(*own, data_nics);
    way.host = nic != nullptr ? nic->id : way.management.id;
    if (!place.named) way.management.address = *own;
    way.management.address.port = 0;
  }
  way.dial = data_nics.front().id;
  for (std::size_t i = place.addresses.size(); i-- > 0;) {
    const Nic* const nic = nic_towards(place.addresses[i], sources[i], data_nics);
    way.dial = nic != nullptr ? nic->id : way.management.id;
    if (nic == nullptr) break;
  }
  return way;
}

}  // namespace r2ccl
