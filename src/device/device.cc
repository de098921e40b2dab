#include "device/device.h"

#include "base/assert.h"
#include "device/cpu/scalar.h"

namespace r2ccl {

void reciprocal(std::uint64_t divisor, DataType type, std::span<std::byte, 8> scalar) {
  R2CCL_ASSERT(is_float(type), "only floats have reciprocals");
  R2CCL_ASSERT(divisor > 0, "nothing is divided by zero");
  const double wide = 1.0 / static_cast<double>(divisor);
  const float narrow = 1.0F / static_cast<float>(divisor);
  from_double(type == DataType::kFloat64 ? wide : narrow, type, scalar.data());
}

}  // namespace r2ccl
