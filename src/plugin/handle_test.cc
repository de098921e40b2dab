#include "plugin/handle.h"

#include <gtest/gtest.h>

namespace r2ccl::plugin {
namespace {

using Handle = std::array<std::byte, nccl::kHandleBytes>;

UniqueId some_id(std::size_t addresses) {
  UniqueId id;
  for (std::size_t i = 0; i < id.secret.size(); ++i) id.secret[i] = static_cast<std::byte>(i * 7);
  for (std::size_t i = 0; i < addresses; ++i)
    id.root.push_back(Address::v4(10, 0, 0, static_cast<std::uint8_t>(i + 1), 5000));
  return id;
}

TEST(Handle, KeepsSecretAndTwoAddresses) {
  for (const std::size_t count : {1u, 2u, 4u}) {
    Handle handle;
    handle.fill(std::byte{0xff});
    write_handle(some_id(count), handle);
    const auto read = read_handle(handle);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->secret, some_id(count).secret);
    EXPECT_EQ(read->root, some_id(std::min<std::size_t>(count, 2)).root);
  }
}

TEST(Handle, EveryDamagedBitIsFound) {
  Handle handle;
  write_handle(some_id(2), handle);
  constexpr std::size_t kUsed = 4 + 2 + 2 + 32 + 2 * Address::kWireSize + 4;
  for (std::size_t at = 0; at < kUsed; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      Handle damaged = handle;
      damaged[at] ^= static_cast<std::byte>(1 << bit);
      EXPECT_FALSE(read_handle(damaged)) << at;
    }
  }
}

}  // namespace
}  // namespace r2ccl::plugin
