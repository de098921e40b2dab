#pragma once
// Shared secrets and proofs of knowing them (keyed BLAKE2b, libsodium). Nothing here is ever logged.

#include <array>
#include <cstddef>

#include "base/bytes.h"

namespace r2ccl {

using Secret = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

Proof keyed_proof(const Secret& secret, ByteView data);
bool same_proof(const Proof& a, ByteView b);  // constant time; false on other lengths

}  // namespace r2ccl
