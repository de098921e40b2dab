#include "device/data_type.h"

#include <array>

#include "base/assert.h"

namespace r2ccl {

std::string_view to_text(DataType type) {
  constexpr std::array<std::string_view, kDataTypes> kNames = {
      "int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
  const auto index = static_cast<std::size_t>(type);
  R2CCL_ASSERT(index < kNames.size(), "no such type of element");
  return kNames[index];
}

std::string_view to_text(ReduceName name) {
  constexpr std::array<std::string_view, 6> kNames = {"sum", "prod", "max", "min", "avg", "mulsum"};
  const auto index = static_cast<std::size_t>(name);
  R2CCL_ASSERT(index < kNames.size(), "no such reduction");
  return kNames[index];
}

}  // namespace r2ccl
