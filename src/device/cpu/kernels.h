#pragma once
// The vector code behind CpuDevice. Every function is compiled once per instruction set, and a table holds the sets
// that this processor can run.

#include <cstddef>
#include <span>

#include "device/data_type.h"

namespace r2ccl {

// What one call works on. With `one_block`, `second` is a single block that is used with every block of `first`.
struct Ranges {
  std::byte* destination;
  const std::byte* first;
  const std::byte* second;
  std::size_t bytes;
  bool one_block = false;
};

// The functions of one instruction set, with the arguments of Device's. `bytes` is a number of whole elements.
struct Kernels {
  const char* name;
  void (*reduce)(const Ranges& ranges, DataType type, ReduceKind kind);
  void (*scale)(const Ranges& ranges, DataType type, const std::byte* scalar);
  // Floats only, because instruction sets have no division of integers.
  void (*divide)(const Ranges& ranges, DataType type, std::uint64_t divisor);
};

// The sets of this processor, best first; never empty, because the last one needs no vectors. Every call returns the
// same table, which is valid until the process ends.
std::span<const Kernels> kernels_of_this_processor();

}  // namespace r2ccl
