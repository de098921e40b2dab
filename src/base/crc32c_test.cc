#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>

namespace r2ccl {
namespace {

ByteView bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Bytes random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// The definition, bit by bit.
std::uint32_t by_definition(ByteView bytes) {
  std::uint32_t crc = ~0u;
  for (const std::byte b : bytes) {
    crc ^= static_cast<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

TEST(Crc32c, KnownCheckValueHolds) {
  EXPECT_EQ(crc32c(0, bytes_of("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c_portable(0, bytes_of("123456789")), 0xE3069283u);
}

TEST(Crc32c, NothingSumsToTheStart) {
  EXPECT_EQ(crc32c(0, {}), 0u);
  EXPECT_EQ(crc32c(0x1234, {}), 0x1234u);
  EXPECT_EQ(crc32c_portable(0x1234, {}), 0x1234u);
}

TEST(Crc32c, PortableFollowsTheDefinition) {
  const Bytes bytes = random_bytes(300, 1);
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    const ByteView view = ByteView(bytes).first(length);
    ASSERT_EQ(crc32c_portable(0, view), by_definition(view)) << "length " << length;
  }
}

TEST(Crc32c, FastEqualsPortableForEveryLengthAndAlignment) {
  const Bytes bytes = random_bytes(40000, 2);
  std::mt19937_64 random(3);
  for (int round = 0; round < 4000; ++round) {
    const std::size_t from = random() % 64;
    const std::size_t length = round < 2000 ? static_cast<std::size_t>(round) : random() % (bytes.size() - 64);
    const auto start = static_cast<std::uint32_t>(random());
    const ByteView view = ByteView(bytes).subspan(from, length);
    ASSERT_EQ(crc32c(start, view), crc32c_portable(start, view)) << "from " << from << " length " << length;
  }
}

TEST(Crc32c, StretchBoundariesAreRight) {
  const Bytes bytes = random_bytes(3 * 4096 * 3 + 3 * 256 + 64, 4);
  for (const std::size_t base : {std::size_t{3 * 256}, std::size_t{3 * 4096}, std::size_t{2 * 3 * 4096}}) {
    for (std::size_t length = base - 9; length <= base + 9; ++length) {
      const ByteView view = ByteView(bytes).subspan(1, length);
      ASSERT_EQ(crc32c(7, view), crc32c_portable(7, view)) << "length " << length;
    }
  }
}

TEST(Crc32c, PiecesContinueTheSum) {
  const Bytes bytes = random_bytes(20000, 5);
  const std::uint32_t whole = crc32c(0, bytes);
  std::mt19937_64 random(6);
  for (int round = 0; round < 200; ++round) {
    const std::size_t cut = random() % bytes.size();
    ASSERT_EQ(crc32c(crc32c(0, ByteView(bytes).first(cut)), ByteView(bytes).subspan(cut)), whole) << "cut " << cut;
  }
}

}  // namespace
}  // namespace r2ccl
