#include "base/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace r2ccl {
namespace {

constexpr std::array<std::uint8_t, 12> kV4Prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return port;
}

std::optional<Address> parse_ip(std::string_view text) {
  const auto percent = text.find('%');
  const std::string zero_ended(text.substr(0, percent));
  Address address;
  if (inet_pton(AF_INET6, zero_ended.c_str(), address.ip.data()) == 1) {
    if (percent == std::string_view::npos) return address;
    const std::string_view zone = text.substr(percent + 1);
    if (zone.empty() || zone.size() > Address::kZoneMax || !address.is_link_local()) return std::nullopt;
    return address.in_zone(zone);
  }
  if (percent != std::string_view::npos) return std::nullopt;
  std::array<std::uint8_t, 4> v4{};
  if (inet_pton(AF_INET, zero_ended.c_str(), v4.data()) == 1) return Address::v4(v4[0], v4[1], v4[2], v4[3]);
  return std::nullopt;
}

struct Parts {
  std::string_view ip;
  std::optional<std::string_view> port;
};

// Splits the port off; a bare IPv6 address has colons but no port.
std::optional<Parts> split(std::string_view text) {
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view ip = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (ip.find(':') == std::string_view::npos) return std::nullopt;
    if (rest.empty()) return Parts{ip, std::nullopt};
    if (rest.front() != ':') return std::nullopt;
    return Parts{ip, rest.substr(1)};
  }
  if (std::ranges::count(text, ':') != 1) return Parts{text, std::nullopt};
  const auto colon = text.find(':');
  return Parts{text.substr(0, colon), text.substr(colon + 1)};
}

}  // namespace

bool Address::is_v4() const {
  return std::equal(kV4Prefix.begin(), kV4Prefix.end(), ip.begin());
}

bool Address::is_loopback() const {
  return is_v4() ? ip[12] == 127
                 : ip[15] == 1 && std::all_of(ip.begin(), ip.end() - 1, [](auto byte) { return byte == 0; });
}

bool Address::is_link_local() const {
  return ip[0] == 0xfe && (ip[1] & 0xc0) == 0x80;
}

bool Address::is_unspecified() const {
  return std::all_of(ip.begin() + (is_v4() ? kV4Prefix.size() : 0), ip.end(), [](auto byte) { return byte == 0; });
}

Address Address::in_zone(std::string_view name) const {
  Address address = *this;
  address.zone = {};
  std::ranges::copy(name.substr(0, kZoneMax), address.zone.begin());
  return address;
}

Address Address::v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d, std::uint16_t port) {
  Address address;
  std::ranges::copy(kV4Prefix, address.ip.begin());
  address.ip[12] = a;
  address.ip[13] = b;
  address.ip[14] = c;
  address.ip[15] = d;
  address.port = port;
  return address;
}

Result<Address> Address::parse(std::string_view text) {
  const auto malformed = [&] {
    return fail(Fault::kMisuse, fmt::format("'{}' is no address; write 10.0.0.1, 10.0.0.1:5000, 2001:db8::1, "
                                            "fe80::1%eth0 or [2001:db8::1]:5000",
                                            text));
  };
  const auto parts = split(text);
  if (!parts) return malformed();
  auto address = parse_ip(parts->ip);
  if (!address) return malformed();
  if (parts->port) {
    const auto port = parse_port(*parts->port);
    if (!port) return malformed();
    address->port = *port;
  }
  return *address;
}

void Address::write(Writer& out) const {
  out.put(std::as_bytes(std::span(ip)));
  out.put(port);
}

Address Address::read(Reader& in) {
  Address address;
  const ByteView raw = in.take(address.ip.size());
  if (!raw.empty()) std::memcpy(address.ip.data(), raw.data(), raw.size());
  address.port = in.get<std::uint16_t>();
  return address;
}

std::string to_text(const Address& address) {
  if (address.is_v4()) {
    const auto& ip = address.ip;
    const std::string text = fmt::format("{}.{}.{}.{}", ip[12], ip[13], ip[14], ip[15]);
    return address.port == 0 ? text : fmt::format("{}:{}", text, address.port);
  }
  std::array<char, INET6_ADDRSTRLEN> digits{};
  inet_ntop(AF_INET6, address.ip.data(), digits.data(), digits.size());
  std::string text = digits.data();
  if (address.zone.front() != 0) text += fmt::format("%{}", address.zone.data());
  return address.port == 0 ? text : fmt::format("[{}]:{}", text, address.port);
}

}  // namespace r2ccl
