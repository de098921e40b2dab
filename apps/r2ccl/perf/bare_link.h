#pragma once
// The yardstick: plain TCP sockets between the same addresses, moved by the plainest loops that are still fast. No
// framing, no receipts, no repair.
//
// Connections are made before fork, so each process keeps one end and no port needs to be told. Every failure ends the
// benchmark with one sentence: on loopback there is nothing to survive.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "transport/tcp/socket.h"

namespace r2ccl::apps {

inline constexpr std::size_t kBarePathsMax = 64;

Address bench_address(std::size_t nic);  // 127.0.0.1, 127.0.0.2, ...

// A blocking connection from the NIC's address to itself.
Result<std::pair<Fd, Fd>> connect_bare(const Address& address);

// How much is copied, and through which memory: message i goes from, or to, slot i modulo the ring's slots.
struct CopyPlan {
  std::uint64_t messages = 0;
  std::size_t message_bytes = 0;
  std::size_t slots = 0;
  std::size_t slot_offset(std::uint64_t message) const { return message % slots * message_bytes; }
};

// Message i goes over socket i modulo their number. One thread serves all sockets, each with a message of its own under
// way. Returns when the kernel has taken (given) the last byte. Sockets become non-blocking.
Status bare_send(std::span<const Fd> sockets, const CopyPlan& plan, ByteView ring);
Status bare_receive(std::span<const Fd> sockets, const CopyPlan& plan, std::span<std::byte> ring);

// 8 bytes there and back, blocking.
inline constexpr std::size_t kPingBytes = 8;
Status bare_ping(const Fd& socket, std::uint64_t roundtrips);
Status bare_pong(const Fd& socket, std::uint64_t roundtrips);

}  // namespace r2ccl::apps
