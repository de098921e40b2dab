#pragma once
// What a session is asked to give back with a completion, in 64 bits. It is an address, whose low bits are free because
// of its alignment and say what it is of:
//
//   0 … 7             a NetRequest; the number is the part that is done
//   kByeIn, kByeOut   a NetComm; one of its two farewells
//   kCopy             a SendCopy

#include <bit>
#include <cstdint>

#include "plugin/net_comm.h"

namespace r2ccl::plugin {

inline constexpr std::uint64_t kByeIn = 8, kByeOut = 9, kCopy = 10, kLowBits = 15;
static_assert(kGroupedMax <= kByeIn && alignof(NetRequest) > kLowBits && alignof(NetComm) > kLowBits &&
              alignof(SendCopy) > kLowBits);
inline constexpr StreamId kByeStream{std::uint64_t{1} << 32};  // tags are below

inline std::uint64_t token_of(const void* object, std::uint64_t low) {
  return std::bit_cast<std::uint64_t>(object) | low;
}
template <class T>
T& object_of(std::uint64_t token) {
  return *std::bit_cast<T*>(token & ~kLowBits);
}

}  // namespace r2ccl::plugin
