#pragma once
// The ticket into a job: where its root listens and the secret that every connection must prove. At most 128 bytes, the
// size of ncclUniqueId. Never logged.

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
  // Where the root is told to be met (MASTER_ADDR), as this process knows it: tried first, by the way that leads there.
  // Empty: the root's own addresses are all there is. Not part of what is packed: others may know the place by another
  // address.
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
