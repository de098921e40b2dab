#pragma once
// The Device for real work: vectorised with Highway for the processor it runs on. cpu/scalar.h does the same element by
// element, and tests compare the two.

#include "device/cpu/kernels.h"
#include "device/device.h"

namespace r2ccl {

class CpuDevice final : public Device {
 public:
  // Takes the best instruction set that this processor has; tests name another one.
  CpuDevice() : CpuDevice(kernels_of_this_processor().front()) {}
  explicit CpuDevice(const Kernels& kernels) : kernels_(kernels) {}

  void copy(std::byte* destination, const std::byte* source, std::size_t bytes) const override;
  void reduce(std::byte* destination, const std::byte* first, const std::byte* second, std::uint64_t count,
              DataType type, ReduceKind kind) const override;
  void scale(std::byte* destination, const std::byte* source, std::uint64_t count, DataType type,
             const std::byte* scalar) const override;
  void divide(std::byte* data, std::uint64_t count, DataType type, std::uint64_t divisor) const override;

 private:
  Kernels kernels_;
};

}  // namespace r2ccl
