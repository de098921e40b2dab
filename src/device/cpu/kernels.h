#pragma once
// The vector code behind CpuDevice, compiled once per instruction set and chosen at run time. Arguments as Device has
// them.

#include <cstddef>
#include <cstdint>

#include "device/data_type.h"

namespace r2ccl {

void reduce_vectors(std::byte* destination, const std::byte* first, const std::byte* second, std::size_t count,
                    DataType type, ReduceKind kind);
void scale_vectors(std::byte* destination, const std::byte* source, std::size_t count, DataType type,
                   const std::byte* scalar);
// Floats only: instruction sets have no division of integers.
void divide_vectors(std::byte* data, std::size_t count, DataType type, std::uint64_t divisor);

}  // namespace r2ccl
