#include "plugin/handle.h"

#include <algorithm>

#include "base/crc32c.h"

namespace r2ccl::plugin {
namespace {

constexpr std::uint32_t kMagic = 0x484e3252;  // "R2NH"
constexpr std::uint16_t kVersion = 4;

}  // namespace

void write_handle(const UniqueId& id, std::span<std::byte, nccl::kHandleBytes> out) {
  Bytes bytes;
  Writer writer(bytes);
  const std::size_t count = std::min(id.root.size(), kHandleAddressesMax);
  writer.put(kMagic);
  writer.put(kVersion);
  writer.put(static_cast<std::uint16_t>(count));
  writer.put(id.secret);
  for (std::size_t i = 0; i < kHandleAddressesMax; ++i) (i < count ? id.root[i] : Address{}).write(writer);
  writer.put(crc32c(0, bytes));
  std::ranges::fill(out, std::byte{});
  std::ranges::copy(bytes, out.begin());
}

Result<UniqueId> read_handle(std::span<const std::byte, nccl::kHandleBytes> in) {
  Reader reader(in);
  const auto refused = fail(Fault::kMisuse, "This is no handle of the r2ccl net plugin, or one of another version.");
  if (reader.get<std::uint32_t>() != kMagic || reader.get<std::uint16_t>() != kVersion) return refused;
  const std::size_t count = reader.get<std::uint16_t>();
  UniqueId id;
  std::ranges::copy(reader.take(id.secret.size()), id.secret.begin());
  for (std::size_t i = 0; i < kHandleAddressesMax; ++i) {
    const Address address = Address::read(reader);
    if (i < count) id.root.push_back(address);
  }
  const std::size_t covered = in.size() - reader.left();
  if (reader.get<std::uint32_t>() != crc32c(0, in.first(covered)) || id.root.empty()) return refused;
  return id;
}

}  // namespace r2ccl::plugin
