#include "topology/discover/discover.h"

#include <fmt/format.h>

#include <algorithm>

#include "topology/discover/interface_filter.h"

namespace r2ccl {

namespace {

// Prefers IPv4, then routable IPv6, then link-local.
const Address* best_address(const Interface& interface) {
  const auto rank = [](const Address& a) { return a.is_v4() ? 0 : a.is_link_local() ? 2 : 1; };
  const auto best = std::ranges::min_element(interface.addresses, {}, rank);
  return best == interface.addresses.end() ? nullptr : &*best;
}

Nic make_nic(const Interface& interface, const Address& address, const MemoryPlace& place) {
  return {.id = {},
          .name = interface.name,
          .address = address,
          .speed_bytes_s = interface.speed_bytes_s,
          .distance = distance_from(place, interface),
          .carrier = interface.up && interface.carrier};
}

Result<Nic> nic_with_address(const Address& address, const NicRequest& request, std::span<const Interface> interfaces) {
  // All of 127.0.0.0/8 is this machine's, whatever is configured; such a NIC is known by its address.
  if (address.is_v4() && address.is_loopback()) return Nic{.id = {}, .name = to_text(address), .address = address};
  for (const Interface& interface : interfaces) {
    const std::string_view zone = address.zone.data();
    if (!zone.empty() && zone != interface.name) continue;
    const auto own = std::ranges::find(interface.addresses, address.ip, &Address::ip);
    if (own == interface.addresses.end()) continue;
    Nic nic = make_nic(interface, *own, request.place);
    if (interface.loopback) nic.name = to_text(address);
    return nic;
  }
  return fail(Fault::kMisuse, fmt::format("no interface of this machine has the address {}", to_text(address)));
}

Result<Nic> named_nic(const std::string& word, const NicRequest& request, std::span<const Interface> interfaces) {
  for (const Interface& interface : interfaces) {
    if (interface.name != word) continue;
    if (const Address* address = best_address(interface)) return make_nic(interface, *address, request.place);
    return fail(Fault::kMisuse, fmt::format("the interface {} has no address", word));
  }
  const Result<Address> address = Address::parse(word);
  if (!address)
    return fail(Fault::kMisuse, fmt::format("'{}' is neither an interface of this machine nor an address", word));
  if (address->port != 0) return fail(Fault::kMisuse, fmt::format("'{}' names a NIC and takes no port", word));
  return nic_with_address(*address, request, interfaces);
}

Result<std::vector<Nic>> listed_nics(const NicRequest& request, std::span<const Interface> interfaces) {
  std::vector<Nic> nics;
  for (const std::string& word : split_list(request.list)) {
    if (word.empty()) return fail(Fault::kMisuse, fmt::format("the NIC list '{}' has an empty name", request.list));
    Result<Nic> nic = named_nic(word, request, interfaces);
    if (!nic) return std::unexpected(nic.error());
    if (std::ranges::any_of(
            nics, [&](const Nic& other) { return other.address == nic->address && other.name == nic->name; })) {
      return fail(Fault::kMisuse, fmt::format("the NIC list '{}' names {} twice", request.list, nic->name));
    }
    nics.push_back(std::move(*nic));
  }
  return nics;
}

Result<std::vector<Nic>> found_nics(const NicRequest& request, std::span<const Interface> interfaces) {
  const Result<InterfaceFilter> filter = InterfaceFilter::parse(request.filter);
  if (!filter) return std::unexpected(filter.error());
  std::vector<Nic> nics;
  for (const Interface& interface : interfaces) {
    if (!interface.up || !filter->matches(interface.name, interface.loopback)) continue;
    if (const Address* address = best_address(interface)) nics.push_back(make_nic(interface, *address, request.place));
  }
  std::ranges::sort(nics, {}, &Nic::name);
  return nics;
}

}  // namespace

NicRequest nic_request(const Settings& settings) {
  NicRequest request;
  for (const std::string& nic : settings.nics) request.list += (request.list.empty() ? "" : ",") + nic;
  request.filter = settings.socket_ifname;
  request.speed_bytes_s = settings.nic_speed_bytes_s;
  return request;
}

Result<std::vector<Nic>> select_nics(const NicRequest& request, std::span<const Interface> interfaces) {
  Result<std::vector<Nic>> nics =
      request.list.empty() ? found_nics(request, interfaces) : listed_nics(request, interfaces);
  if (!nics) return nics;
  if (nics->empty()) {
    return fail(Fault::kMisuse,
                request.filter.empty()
                    ? "no usable NIC: no interface but loopback is up and has an address"
                    : fmt::format("no interface that is up and has an address matches '{}'", request.filter));
  }
  if (nics->size() > kNicsMax) {
    return fail(Fault::kMisuse, fmt::format("{} NICs are more than the {} that are supported", nics->size(), kNicsMax));
  }
  for (std::size_t i = 0; i < nics->size(); ++i) {
    Nic& nic = (*nics)[i];
    nic.id = NicId{static_cast<std::uint8_t>(i)};
    if (request.speed_bytes_s != 0) nic.speed_bytes_s = request.speed_bytes_s;
  }
  return nics;
}

Result<std::vector<Nic>> discover_nics(const NicRequest& request) {
  return select_nics(request, read_interfaces());
}

}  // namespace r2ccl
