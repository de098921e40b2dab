#pragma once
// Ids as distinct types, so that a NIC's can not be passed where a path's is meant.

#include <compare>
#include <cstdint>
#include <string>

namespace r2ccl {

template <class Tag, class Value = std::uint32_t>
struct Id {
  Value value{};
  friend auto operator<=>(Id, Id) = default;
};

// One incarnation of one process: drawn at random when it starts, so a restarted process is another one.
// Of two processes the one with the lower id connects and reconnects.
using ProcessId = Id<struct ProcessTag, std::uint64_t>;
using ServerId = Id<struct ServerTag, std::uint64_t>;  // Same value = shares NICs and memory.
using NicId = Id<struct NicTag, std::uint8_t>;         // NIC number within its server; also its rail.
using StreamId = Id<struct StreamTag, std::uint64_t>;  // One ordered flow of messages on a session.
using GroupId = Id<struct GroupTag, std::uint64_t>;    // The owner of streams: a communicator, a plugin connection.
using ChunkId = Id<struct ChunkTag, std::uint64_t>;    // Session-wide, per direction, kept in every replay.
using KeyId = Id<struct KeyTag, std::uint64_t>;        // Names a secret without revealing it.
using Epoch = Id<struct EpochTag, std::uint32_t>;      // Incarnation of a path; 0 = never opened.

// A pair of NICs: `low` belongs to the process with the lower id, so both ends name a path alike.
struct PathId {
  NicId low;
  NicId high;
  friend auto operator<=>(PathId, PathId) = default;
  std::uint16_t packed() const { return static_cast<std::uint16_t>(low.value << 8 | high.value); }
  static PathId unpack(std::uint16_t v) {
    return {{static_cast<std::uint8_t>(v >> 8)}, {static_cast<std::uint8_t>(v & 0xff)}};
  }
};

std::string to_text(PathId path);        // "1-2"
std::string to_text(ProcessId process);  // 16 hex digits

}  // namespace r2ccl
