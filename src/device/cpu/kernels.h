#pragma once
// The vector code behind CpuDevice: every function compiled once per instruction set, and a table of what this processor can run.

#include <cstddef>
#include <span>

#include "device/data_type.h"

namespace r2ccl {

// What one call works on. Second is one block that stands for every block of first where `one_block` says so.
struct Ranges {
  std::byte* destination;
  const std::byte* first;
  const std::byte* second;
  std::size_t bytes;
  bool one_block = false;
};

// The functions of one instruction set. Arguments as Device has them; bytes are whole elements.
struct Kernels {
  const char* name;
  void (*reduce)(const Ranges& ranges, DataType type, ReduceKind kind);
  void (*scale)(const Ranges& ranges, DataType type, const std::byte* scalar);
  // Floats only: instruction sets have no division of integers.
  void (*divide)(const Ranges& ranges, DataType type, std::uint64_t divisor);
};

// Of this processor, best first; never empty, because the last one needs no vectors. The same in every call, and valid until the
// process ends.
std::span<const Kernels> kernels_of_this_processor();

}  // namespace r2ccl
