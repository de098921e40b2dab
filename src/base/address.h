#pragma once
// Where a NIC listens. IPv4 is kept as an IPv4-mapped IPv6 address so that one type serves both.
//
// A link-local IPv6 address (fe80::/10) may mean a different host on every network. Its zone says which network: the
// name, or number, of an interface of this server. That is of no use to another server, so the zone never travels;
// whoever gets a link-local address without one dials it from a NIC of its own.

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace r2ccl {

struct Address {
  static constexpr std::size_t kZoneMax = 15;  // as long as an interface's name can be

  std::array<std::uint8_t, 16> ip{};
  std::uint16_t port = 0;
  std::array<char, kZoneMax + 1> zone{};  // only for link-local addresses; ends with 0; empty: none was given

  friend auto operator<=>(const Address&, const Address&) = default;
  bool is_v4() const;
  bool is_loopback() const;     // 127.0.0.0/8, ::1
  bool is_link_local() const;   // fe80::/10
  bool is_unspecified() const;  // 0.0.0.0, ::

  static Address v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d, std::uint16_t port = 0);
  // "10.0.0.1", "10.0.0.1:5000", "fe80::1", "fe80::1%eth0", "[fe80::1%eth0]:5000"
  static Result<Address> parse(std::string_view text);
  // The same address in this zone. A zone that is too long for an interface's name is cut.
  Address in_zone(std::string_view name) const;

  static constexpr std::size_t kWireSize = 18;
  void write(Writer& out) const;  // without the zone
  static Address read(Reader& in);
};

std::string to_text(const Address& address);

}  // namespace r2ccl
