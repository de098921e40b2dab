#include "device/cpu/cpu_device.h"

#include <cstring>
#include <type_traits>

#include "base/assert.h"

namespace r2ccl {
namespace {

// Division of anything below 2^32 by one divisor as a multiplication: with m = 2^64 / divisor rounded up, floor(n *
// m / 2^64) is floor(n / divisor) for all n and divisors below 2^32 (Lemire, Kaser, Kurz: "Faster remainder by
// direct computation").
class Divider {
 public:
  explicit Divider(std::uint64_t divisor) : divisor_(divisor), reciprocal_(~std::uint64_t{0} / divisor + 1) {}

  template <class Magnitude>
  std::uint64_t operator()(Magnitude n) const {
    if constexpr (sizeof(Magnitude) == 8) return n / divisor_;
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>(Wide{n} * reciprocal_ >> 64);
  }

 private:
  std::uint64_t divisor_;
  std::uint64_t reciprocal_;
};

template <class T>
void divide_integers(std::byte* data, std::uint64_t count, std::uint64_t divisor) {
  using Magnitude = std::make_unsigned_t<T>;
  if (divisor == 1) return;  // Its m would need 65 bits.
  if (divisor > static_cast<Magnitude>(~Magnitude{0})) {
    if (count > 0) std::memset(data, 0, count * sizeof(T));
    return;
  }
  const Divider quotient(divisor);
  for (std::uint64_t i = 0; i < count; ++i, data += sizeof(T)) {
    T value;
    std::memcpy(&value, data, sizeof value);
    const bool negative = value < 0;
    const auto bits = static_cast<Magnitude>(value);
    const std::uint64_t result = quotient(negative ? static_cast<Magnitude>(0 - bits) : bits);
    value = static_cast<T>(negative ? 0 - result : result);
    std::memcpy(data, &value, sizeof value);
  }
}

}  // namespace

void CpuDevice::copy(std::byte* destination, const std::byte* source, std::size_t bytes) const {
  if (bytes > 0 && destination != source) std::memcpy(destination, source, bytes);
}

void CpuDevice::reduce(std::byte* destination, const std::byte* first, const std::byte* second, std::uint64_t count,
                       DataType type, ReduceKind kind) const {
  kernels_.reduce({destination, first, second, count * size_of(type)}, type, kind);
}

void CpuDevice::scale(std::byte* destination, const std::byte* source, std::uint64_t count, DataType type,
                      const std::byte* scalar) const {
  kernels_.scale({destination, source, source, count * size_of(type)}, type, scalar);
}

void CpuDevice::divide(std::byte* data, std::uint64_t count, DataType type, std::uint64_t divisor) const {
  R2CCL_ASSERT(divisor > 0, "nothing is divided by zero");
  switch (type) {
    case DataType::kInt8:
      return divide_integers<std::int8_t>(data, count, divisor);
    case DataType::kUint8:
      return divide_integers<std::uint8_t>(data, count, divisor);
    case DataType::kInt32:
      return divide_integers<std::int32_t>(data, count, divisor);
    case DataType::kUint32:
      return divide_integers<std::uint32_t>(data, count, divisor);
    case DataType::kInt64:
      return divide_integers<std::int64_t>(data, count, divisor);
    case DataType::kUint64:
      return divide_integers<std::uint64_t>(data, count, divisor);
    default:
      return kernels_.divide({data, data, data, count * size_of(type)}, type, divisor);
  }
}

}  // namespace r2ccl
