#pragma once
// What a process needs to join a job: where its root listens, and the secret that every connection must prove. Packed
// it has 128 bytes, the size of ncclUniqueId. Never logged.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "env/env.h"

namespace r2ccl {

struct UniqueId {
  static constexpr std::size_t kWireSize = 128;
  static constexpr std::size_t kAddressesMax = 4;

  std::array<std::byte, 32> secret{};
  std::vector<Address> root;  // tried in order
  // Where processes were told to meet the root (MASTER_ADDR), as this process knows it; tried first. Empty: only the
  // root's own addresses are known. Not packed, because others may know the place by another address.
  std::vector<Address> place;

  // Draws the secret. At least one address; those beyond kAddressesMax are left out.
  static UniqueId make(Random& random, std::vector<Address> root);
  // magic "R2ID", version u16, addresses u8, 0 u8, secret, 4 addresses, zeros, CRC-32C of all before it.
  std::array<std::byte, kWireSize> pack() const;
  static Result<UniqueId> unpack(ByteView bytes);
  std::string to_hex() const;  // for handing it to child processes
  static Result<UniqueId> from_hex(std::string_view text);
};

}  // namespace r2ccl
