#include "control/unique_id.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/crc32c.h"

namespace r2ccl {
namespace {

constexpr std::uint32_t kMagic = 0x44493252;  // "R2ID"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kChecksumAt = UniqueId::kWireSize - 4;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::unexpected<Error> bad(std::string why) {
  return fail(Fault::kMisuse, "The unique id can not be read: " + std::move(why) + ".");
}

}  // namespace

UniqueId UniqueId::make(Random& random, std::vector<Address> root) {
  R2CCL_ASSERT(!root.empty(), "a unique id needs the address of the root");
  UniqueId id;
  random.fill(id.secret);
  if (root.size() > kAddressesMax) root.resize(kAddressesMax);
  id.root = std::move(root);
  return id;
}

std::array<std::byte, UniqueId::kWireSize> UniqueId::pack() const {
  R2CCL_ASSERT(!root.empty() && root.size() <= kAddressesMax, "a unique id carries 1 to 4 addresses");
  Bytes bytes;
  bytes.reserve(kWireSize);
  Writer out(bytes);
  out.put(kMagic);
  out.put(kVersion);
  out.put(static_cast<std::uint8_t>(root.size()));
  out.put(std::uint8_t{0});
  out.put(ByteView(secret));
  for (const Address& address : root) address.write(out);
  bytes.resize(kChecksumAt);
  out.put(crc32c(0, bytes));
  std::array<std::byte, kWireSize> packed;
  std::ranges::copy(bytes, packed.begin());
  return packed;
}

Result<UniqueId> UniqueId::unpack(ByteView bytes) {
  if (bytes.size() != kWireSize) return bad(fmt::format("it has {} bytes instead of {}", bytes.size(), kWireSize));
  Reader in(bytes);
  if (in.get<std::uint32_t>() != kMagic) return bad("it was not made by this library");
  if (const auto version = in.get<std::uint16_t>(); version != kVersion) {
    return bad(fmt::format("it has version {}, this library reads {}", version, kVersion));
  }
  if (Reader(bytes.subspan(kChecksumAt)).get<std::uint32_t>() != crc32c(0, bytes.first(kChecksumAt))) {
    return bad("its checksum is wrong, so it was damaged on its way");
  }
  const auto count = in.get<std::uint8_t>();
  const auto reserved = in.get<std::uint8_t>();
  if (count == 0 || count > kAddressesMax || reserved != 0) return bad("its fields contradict each other");
  UniqueId id;
  std::ranges::copy(in.take(id.secret.size()), id.secret.begin());
  for (std::size_t i = 0; i < count; ++i) id.root.push_back(Address::read(in));
  const ByteView padding = in.take(in.left() - 4);
  if (std::ranges::any_of(padding, [](std::byte b) { return b != std::byte{0}; })) {
    return bad("its fields contradict each other");
  }
  return id;
}

std::string UniqueId::to_hex() const {
  std::string text;
  for (const std::byte b : pack()) text += fmt::format("{:02x}", static_cast<unsigned>(b));
  return text;
}

Result<UniqueId> UniqueId::from_hex(std::string_view text) {
  if (text.size() != 2 * kWireSize) {
    return bad(fmt::format("it has {} characters instead of {}", text.size(), 2 * kWireSize));
  }
  std::array<std::byte, kWireSize> packed;
  for (std::size_t i = 0; i < kWireSize; ++i) {
    const int high = hex_digit(text[2 * i]);
    const int low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return bad("it holds a character that is no hexadecimal digit");
    packed[i] = static_cast<std::byte>(high << 4 | low);
  }
  return unpack(packed);
}

}  // namespace r2ccl
