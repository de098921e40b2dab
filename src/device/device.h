#pragma once
// Copies and reduces host memory. Every call is done when it returns, so this interface does not fit a device that
// works on a stream of its own. device/cpu has two implementations: CpuDevice is fast, ScalarDevice is the
// reference.
//
// Reductions are element by element, `destination = first + second` in this order. Every bit of a result is defined, so
// the same operands give the same bits on every rank, whatever the processor and however a range is cut:
//   integers           wrap; division is toward zero
//   float32, float64   IEEE arithmetic in the type's own precision, never fused
//   float16, bfloat16  computed in float32, then rounded to nearest even; overflow gives infinity
//   fp8                the same, but overflow gives the largest number, 448 (e4m3) or 57344 (e5m2), as saturating
//                      conversions in CUDA do. They saturate infinities too: infinity + 1 is 57344 in e5m2; e4m3 has
//                      none
//   max, min           one of the operands as it is (so infinities stay), -0 below +0; with a NaN operand, NaN
//   NaN                a result that is NaN has every bit set but the sign, whatever NaN the operands were
// This holds while the calling thread rounds to nearest and keeps subnormals, which is how threads start.
//
// Ownership  Memory is the caller's. Two ranges of a call are the same or do not overlap. No alignment is required.
// Threads    No state: any number of threads at the same time.
// Failure    None: callers have checked their arguments.

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/data_type.h"

namespace r2ccl {

class Device {
 public:
  virtual ~Device() = default;

  virtual void copy(std::byte* destination, const std::byte* source, std::size_t bytes) const = 0;
  // destination may be first or second.
  virtual void reduce(std::byte* destination, const std::byte* first, const std::byte* second, std::uint64_t count,
                      DataType type, ReduceKind kind) const = 0;
  // destination = source * scalar, as kProd computes it; `scalar` points to one element of the type. For kPreMulSum.
  virtual void scale(std::byte* destination, const std::byte* source, std::uint64_t count, DataType type,
                     const std::byte* scalar) const = 0;
  // data = data / divisor, for kAvg. The divisor is not zero. For floats it is first rounded to the precision that
  // divides, which is float64 for float64 and float32 for all others.
  virtual void divide(std::byte* data, std::uint64_t count, DataType type, std::uint64_t divisor) const = 0;
};

// 1 / divisor in the type, which must be a float; computed as divide does, written to the first size_of(type) bytes of
// `scalar`. Narrow types round coarsely: 1 / 600 is 2^-9 in e4m3, and 1 / 2000 is 0.
void reciprocal(std::uint64_t divisor, DataType type, std::span<std::byte, 8> scalar);

}  // namespace r2ccl
