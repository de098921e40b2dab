#pragma once
// The types of elements, and how two elements become one. Both are numbered as NCCL numbers them, so the bindings only
// have to check ranges.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace r2ccl {

enum class DataType : std::uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
};
inline constexpr std::size_t kDataTypes = 12;

constexpr std::size_t size_of(DataType type) {
  constexpr std::size_t kSizes[kDataTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kSizes[static_cast<std::size_t>(type)];
}
constexpr bool is_float(DataType type) {
  return type >= DataType::kFloat16;
}
std::string_view to_text(DataType type);  // "float", "bfloat16"; nccl-tests' names

enum class ReduceKind : std::uint8_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3 };

// An operation a user can name. kAvg and kPreMulSum become a sum with work before or after it (comm/ decides which).
enum class ReduceName : std::uint8_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4, kPreMulSum = 5 };
std::string_view to_text(ReduceName name);  // "sum", "mulsum"; nccl-tests' names

}  // namespace r2ccl
