#pragma once
// The reference: every type and operation one element at a time, written to be read. It is slow, and serves tests,
// single values and processors without vectors. It shares no code with the vector functions of cpu/kernels.cc, so that
// their agreement means something.

#include "device/device.h"

namespace r2ccl {

// The value of one element. Exact, except that 64-bit integers are rounded to a double.
double to_double(const std::byte* element, DataType type);

// Rounds to the nearest value of the type, ties to even, once. float16, bfloat16 and float32 overflow to infinity; fp8
// saturates, from infinity too. Integers drop the fraction; a value that does not fit is a bug.
void from_double(double value, DataType type, std::byte* element);

class ScalarDevice final : public Device {
 public:
  void copy(std::byte* destination, const std::byte* source, std::size_t bytes) const override;
  void reduce(std::byte* destination, const std::byte* first, const std::byte* second, std::uint64_t count,
              DataType type, ReduceKind kind) const override;
  void scale(std::byte* destination, const std::byte* source, std::uint64_t count, DataType type,
             const std::byte* scalar) const override;
  void divide(std::byte* data, std::uint64_t count, DataType type, std::uint64_t divisor) const override;
};

}  // namespace r2ccl
