#pragma once
// CRC-32C (Castagnoli), with the processor's instruction where there is one.

#include <cstdint>

#include "base/bytes.h"

namespace r2ccl {

// Continues `crc` (0 to start) over `bytes`; crc32c(crc32c(0, a), b) == crc32c(0, a followed by b).
std::uint32_t crc32c(std::uint32_t crc, ByteView bytes);

// The portable version with tables: for processors without the instruction, and the reference of the fast one's tests.
std::uint32_t crc32c_portable(std::uint32_t crc, ByteView bytes);

}  // namespace r2ccl
