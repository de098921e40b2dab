#include "transport/stream/frame.h"

#include <cstring>

#include "base/crc32c.h"

namespace r2ccl {
namespace {

constexpr std::size_t kCheckedBytes = offsetof(WireHeader, header_crc);

}  // namespace

void encode_header(const FrameHeader& header, ByteView body, const std::uint32_t* payload_crc, std::size_t padding,
                   std::byte* out) {
  const std::uint8_t checksummed = payload_crc != nullptr ? kFlagPayloadChecksummed : std::uint8_t{0};
  WireHeader wire{
      .magic = kFrameMagic,
      .type = header.type,
      .flags = static_cast<std::uint8_t>(checksummed | padding << kPaddingShift),
      .path = header.path.packed(),
      .body_bytes = static_cast<std::uint16_t>(body.size()),
      .epoch = header.epoch.value,
      .payload_bytes = header.payload_bytes,
      .payload_crc = payload_crc != nullptr ? *payload_crc : 0,
      .body_crc = crc32c(0, body),
      .header_crc = 0,
  };
  std::memcpy(out, &wire, kHeaderBytes);
  wire.header_crc = crc32c(0, ByteView(out, kCheckedBytes));
  std::memcpy(out + kCheckedBytes, &wire.header_crc, sizeof wire.header_crc);
}

const char* decode_header(const std::byte* in, WireHeader& out) {
  std::memcpy(&out, in, kHeaderBytes);
  if (out.magic != kFrameMagic) return "it does not begin with the magic number";
  if (out.header_crc != crc32c(0, ByteView(in, kCheckedBytes))) return "its header does not match its checksum";
  if ((out.flags & kFlagsUnused) != 0) return "it has unknown flags";
  if (out.padding() > 0 && out.payload_bytes == 0) return "it is padded for a payload that it does not have";
  if (out.body_bytes > kBodyBytesMax) return "its body is too long";
  if (out.payload_bytes > kPayloadBytesMax) return "its payload is too long";
  return nullptr;
}

bool body_matches(const WireHeader& header, ByteView body) {
  return crc32c(0, body) == header.body_crc;
}

}  // namespace r2ccl
