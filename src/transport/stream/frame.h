#pragma once
// A frame on the wire: header, body, padding, payload, and zeros up to a multiple of kFrameAlignment. Little-endian.
//
//   offset  bytes  field
//        0      2  magic          kFrameMagic
//        2      1  type           FrameHeader::type
//        3      1  flags          bit 0: payload_crc is valid; bit 1: zero; bits 2 to 7: bytes of padding
//        4      2  path           PathId::packed()
//        6      2  body_bytes     at most kBodyBytesMax
//        8      4  epoch
//       12      4  payload_bytes  at most kPayloadBytesMax
//       16      4  payload_crc    CRC-32C of the payload; zero without bit 0
//       20      4  body_crc       CRC-32C of the body
//       24      4  header_crc     CRC-32C of the 24 bytes before it
//
// The header has a checksum of its own so that a damaged length is found at once, and not after waiting for a body that
// never comes. A header or body that fails any check means that framing is lost: nothing after it can be trusted. A bad
// payload harms only itself.
//
// Padding may shift a payload so that its offset in the frame and its address in memory are the same within a cache
// line. The kernel copies what we write into pages that it fills one after another. With frames of whole cache lines,
// source and destination of that copy are then aligned to each other, and so are those of the reader's copy if its
// memory lies alike. That is the fastest way to copy; the slowest is a destination a few bytes above its source within
// the page (bench/copies). A frame without payload has no padding.

#include <cstddef>

#include "transport/link.h"

namespace r2ccl {

inline constexpr std::uint16_t kFrameMagic = 0xC2F2;
inline constexpr std::uint8_t kFlagPayloadChecksummed = 1;
inline constexpr std::uint8_t kFlagsUnused = 2;
inline constexpr int kPaddingShift = 2;
inline constexpr std::size_t kFrameAlignment = 64;

struct WireHeader {
  std::uint16_t magic;
  std::uint8_t type;
  std::uint8_t flags;
  std::uint16_t path;
  std::uint16_t body_bytes;
  std::uint32_t epoch;
  std::uint32_t payload_bytes;
  std::uint32_t payload_crc;
  std::uint32_t body_crc;
  std::uint32_t header_crc;

  bool payload_checksummed() const { return (flags & kFlagPayloadChecksummed) != 0; }
  std::size_t padding() const { return flags >> kPaddingShift; }
  FrameHeader header() const { return {type, PathId::unpack(path), Epoch{epoch}, payload_bytes}; }
};
static_assert(sizeof(WireHeader) == 28 && alignof(WireHeader) == 4);
static_assert(offsetof(WireHeader, path) == 4 && offsetof(WireHeader, body_bytes) == 6);
static_assert(offsetof(WireHeader, epoch) == 8 && offsetof(WireHeader, payload_bytes) == 12);
static_assert(offsetof(WireHeader, payload_crc) == 16 && offsetof(WireHeader, body_crc) == 20);
static_assert(offsetof(WireHeader, header_crc) == 24);
static_assert(kBodyBytesMax <= 0xffff);

inline constexpr std::size_t kHeaderBytes = sizeof(WireHeader);

// How many zeros follow `bytes` of a frame to make its length a multiple of kFrameAlignment.
constexpr std::size_t rest_of_line(std::size_t bytes) {
  return (kFrameAlignment - bytes % kFrameAlignment) % kFrameAlignment;
}

// Writes kHeaderBytes to `out`. `payload_crc`: null when the payload is not checksummed. `padding`: less than
// kFrameAlignment.
void encode_header(const FrameHeader& header, ByteView body, const std::uint32_t* payload_crc, std::size_t padding,
                   std::byte* out);

// Reads kHeaderBytes from `in`. Returns what is wrong in a few words, or nullptr.
const char* decode_header(const std::byte* in, WireHeader& out);
bool body_matches(const WireHeader& header, ByteView body);

}  // namespace r2ccl
