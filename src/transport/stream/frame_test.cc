#include "transport/stream/frame.h"

#include <gtest/gtest.h>

#include <array>

#include "testing/link_testing.h"

namespace r2ccl {
namespace {

using Encoded = std::array<std::byte, kHeaderBytes>;

Encoded encode(const FrameHeader& header, ByteView body, const std::uint32_t* crc, std::size_t padding = 0) {
  Encoded out{};
  encode_header(header, body, crc, padding, out.data());
  return out;
}

const FrameHeader kHeader{.type = 9, .path = {{1}, {2}}, .epoch = {0x01020304}, .payload_bytes = 4096};

TEST(FrameHeaderOnTheWire, ComesBackAsItWent) {
  const Bytes body = to_bytes("typed fields");
  const std::uint32_t crc = 0xfeedbeef;
  WireHeader wire{};
  ASSERT_EQ(decode_header(encode(kHeader, body, &crc, 63).data(), wire), nullptr);
  EXPECT_EQ(wire.padding(), 63u);
  EXPECT_EQ(wire.header().type, kHeader.type);
  EXPECT_EQ(wire.header().path, kHeader.path);
  EXPECT_EQ(wire.header().epoch, kHeader.epoch);
  EXPECT_EQ(wire.header().payload_bytes, kHeader.payload_bytes);
  EXPECT_TRUE(wire.payload_checksummed());
  EXPECT_EQ(wire.payload_crc, crc);
  EXPECT_TRUE(body_matches(wire, body));
}

TEST(FrameHeaderOnTheWire, HasTheDocumentedLayout) {
  const Encoded out = encode(kHeader, to_bytes("abc"), nullptr, 5);
  const auto at = [&](std::size_t i) { return std::to_integer<int>(out[i]); };
  EXPECT_EQ(at(0), 0xF2);
  EXPECT_EQ(at(1), 0xC2);
  EXPECT_EQ(at(2), 9);
  EXPECT_EQ(at(3), 5 << 2);
  EXPECT_EQ(at(4), 2);  // path 1-2, low byte first
  EXPECT_EQ(at(5), 1);
  EXPECT_EQ(at(6), 3);
  EXPECT_EQ(at(8), 4);
  EXPECT_EQ(at(11), 1);
  EXPECT_EQ(at(13), 0x10);
}

TEST(FrameHeaderOnTheWire, DamageToAnyBitIsFoundFromTheHeaderAlone) {
  const std::uint32_t crc = 77;
  const Encoded good = encode(kHeader, to_bytes("abc"), &crc);
  for (std::size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
    Encoded bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    WireHeader wire{};
    EXPECT_NE(decode_header(bad.data(), wire), nullptr) << "bit " << bit;
  }
}

TEST(FrameHeaderOnTheWire, PaddingWithoutAPayloadIsRefused) {
  FrameHeader empty = kHeader;
  empty.payload_bytes = 0;
  WireHeader wire{};
  EXPECT_STREQ(decode_header(encode(empty, {}, nullptr, 1).data(), wire),
               "it is padded for a payload that it does not have");
  EXPECT_EQ(decode_header(encode(empty, {}, nullptr, 0).data(), wire), nullptr);
}

TEST(FrameHeaderOnTheWire, SizesBeyondTheLimitsAreRefusedEvenWithARightChecksum) {
  FrameHeader large = kHeader;
  large.payload_bytes = kPayloadBytesMax + 1;
  WireHeader wire{};
  EXPECT_STREQ(decode_header(encode(large, {}, nullptr).data(), wire), "its payload is too long");
  const Bytes body(kBodyBytesMax + 1);
  EXPECT_STREQ(decode_header(encode(kHeader, body, nullptr).data(), wire), "its body is too long");
  large.payload_bytes = kPayloadBytesMax;
  EXPECT_EQ(decode_header(encode(large, Bytes(kBodyBytesMax), nullptr).data(), wire), nullptr);
}

}  // namespace
}  // namespace r2ccl
