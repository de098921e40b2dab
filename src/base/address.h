#pragma once
// Where a NIC listens. IPv4 is kept as an IPv4-mapped IPv6 address so that one type serves both.

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace r2ccl {

struct Address {
  std::array<std::uint8_t, 16> ip{};
  std::uint16_t port = 0;

  friend auto operator<=>(const Address&, const Address&) = default;
  bool is_v4() const;
  bool is_loopback() const;  // 127.0.0.0/8, ::1

  static Address v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d, std::uint16_t port = 0);
  // "10.0.0.1", "10.0.0.1:5000", "fe80::1", "[fe80::1]:5000"
  static Result<Address> parse(std::string_view text);

  static constexpr std::size_t kWireSize = 18;
  void write(Writer& out) const;
  static Address read(Reader& in);
};

std::string to_text(const Address& address);

}  // namespace r2ccl
