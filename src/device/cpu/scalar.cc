#include "device/cpu/scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/assert.h"

namespace r2ccl {
namespace {

// A float of at most 16 bits: from the top sign, exponent, mantissa. A code is what follows the sign.
struct ScalarFormat {
  unsigned sign_bit;
  int mantissa_bits;
  int lowest_exponent;    // of normal numbers
  std::uint32_t special;  // first code that is not a finite number
  std::uint32_t highest;  // code that overflow becomes: infinity, or the largest number where conversions saturate
  bool infinity;          // `special` is infinity; otherwise a NaN
};

ScalarFormat format_of(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return {15, 10, -14, 0x7c00, 0x7c00, true};
    case DataType::kBfloat16:
      return {15, 7, -126, 0x7f80, 0x7f80, true};
    case DataType::kFloat8e4m3:
      return {7, 3, -6, 0x7f, 0x7e, false};
    case DataType::kFloat8e5m2:
      return {7, 2, -14, 0x7c, 0x7b, true};
    default:
      raise_bug("format_of", __FILE__, __LINE__, "not a narrow float");
  }
}

template <class T>
T load(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}
template <class T>
void store(T value, std::byte* element) {
  std::memcpy(element, &value, sizeof value);
}

double narrow_to_double(std::uint32_t bits, const ScalarFormat& format) {
  const std::uint32_t code = bits & ((1u << format.sign_bit) - 1);
  const double sign = bits >> format.sign_bit != 0 ? -1.0 : 1.0;
  if (code >= format.special) {
    const bool infinite = format.infinity && code == format.special;
    return infinite ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  const std::uint32_t one = 1u << format.mantissa_bits;
  const int exponent = static_cast<int>(code / one);
  const std::uint32_t mantissa = exponent == 0 ? code : code % one + one;
  return sign * std::ldexp(mantissa, std::max(exponent - 1, 0) + format.lowest_exponent - format.mantissa_bits);
}

std::uint32_t narrow_from_double(double value, const ScalarFormat& format) {
  const std::uint32_t sign = std::signbit(value) ? 1u << format.sign_bit : 0;
  if (std::isnan(value)) return (1u << format.sign_bit) - 1;
  if (value == 0) return sign;
  if (std::isinf(value)) return sign | format.highest;
  const int exponent = std::max(std::ilogb(value), format.lowest_exponent);
  // In units of the last place; the default rounding of the processor is to nearest even.
  const double units = std::nearbyint(std::ldexp(std::fabs(value), format.mantissa_bits - exponent));
  const double code = std::ldexp(exponent - format.lowest_exponent, format.mantissa_bits) + units;
  return sign | static_cast<std::uint32_t>(std::min<double>(code, format.highest));
}

template <class T>
void integer_from_double(double value, std::byte* element) {
  using Limits = std::numeric_limits<T>;
  R2CCL_ASSERT(value > static_cast<double>(Limits::min()) - 1.0 || value == static_cast<double>(Limits::min()),
               "too small");
  R2CCL_ASSERT(value < std::ldexp(1.0, Limits::digits), "too large");
  store(static_cast<T>(value), element);
}

template <class Action>
auto with_integer(DataType type, Action action) {
  switch (type) {
    case DataType::kInt8:
      return action(std::int8_t{});
    case DataType::kUint8:
      return action(std::uint8_t{});
    case DataType::kInt32:
      return action(std::int32_t{});
    case DataType::kUint32:
      return action(std::uint32_t{});
    case DataType::kInt64:
      return action(std::int64_t{});
    case DataType::kUint64:
      return action(std::uint64_t{});
    default:
      raise_bug("with_integer", __FILE__, __LINE__, "not an integer");
  }
}

template <class T>
T combine_integers(T a, T b, ReduceKind kind) {
  // Computed in 64 bits without a sign: signed overflow is undefined in C++, and small types would become int.
  using Unsigned = std::make_unsigned_t<T>;
  const std::uint64_t wide_a = static_cast<Unsigned>(a);
  const std::uint64_t wide_b = static_cast<Unsigned>(b);
  switch (kind) {
    case ReduceKind::kSum:
      return static_cast<T>(wide_a + wide_b);
    case ReduceKind::kProd:
      return static_cast<T>(wide_a * wide_b);
    case ReduceKind::kMax:
      return a > b ? a : b;
    case ReduceKind::kMin:
      return a < b ? a : b;
  }
  raise_bug("combine_integers", __FILE__, __LINE__, "no such reduction");
}

template <class T>
T divide_integer(T a, std::uint64_t divisor) {
  if (a >= 0) return static_cast<T>(static_cast<std::uint64_t>(a) / divisor);
  const std::uint64_t magnitude = 0 - static_cast<std::uint64_t>(a);
  return static_cast<T>(0 - magnitude / divisor);
}

// Sum and product, in double for float64 and in float for everything else.
template <class Operation>
void combine_floats(std::byte* destination, double a, double b, DataType type, Operation operation) {
  const double result =
      type == DataType::kFloat64 ? operation(a, b) : operation(static_cast<float>(a), static_cast<float>(b));
  from_double(result, type, destination);
}

// One of the two, as it is: an infinity stays one even where conversions saturate.
void pick_float(std::byte* destination, const std::byte* first, const std::byte* second, DataType type, bool larger) {
  const double a = to_double(first, type);
  const double b = to_double(second, type);
  if (std::isnan(a) || std::isnan(b)) return from_double(std::numeric_limits<double>::quiet_NaN(), type, destination);
  const bool a_is_larger = a > b || (a == b && std::signbit(b));
  std::memmove(destination, a_is_larger == larger ? first : second, size_of(type));
}

}  // namespace

double to_double(const std::byte* element, DataType type) {
  if (!is_float(type)) {
    return with_integer(type, [&]<class T>(T) { return static_cast<double>(load<T>(element)); });
  }
  if (type == DataType::kFloat64) return load<double>(element);
  if (type == DataType::kFloat32) return load<float>(element);
  const std::uint32_t bits = size_of(type) == 1 ? load<std::uint8_t>(element) : load<std::uint16_t>(element);
  return narrow_to_double(bits, format_of(type));
}

void from_double(double value, DataType type, std::byte* element) {
  if (!is_float(type)) return with_integer(type, [&]<class T>(T) { integer_from_double<T>(value, element); });
  if (type == DataType::kFloat64) {
    return store(std::isnan(value) ? ~std::uint64_t{0} >> 1 : std::bit_cast<std::uint64_t>(value), element);
  }
  if (type == DataType::kFloat32) {
    return store(std::isnan(value) ? ~0u >> 1 : std::bit_cast<std::uint32_t>(static_cast<float>(value)), element);
  }
  const std::uint32_t bits = narrow_from_double(value, format_of(type));
  if (size_of(type) == 1) return store(static_cast<std::uint8_t>(bits), element);
  store(static_cast<std::uint16_t>(bits), element);
}

void ScalarDevice::copy(std::byte* destination, const std::byte* source, std::size_t bytes) const {
  for (std::size_t i = 0; i < bytes; ++i) destination[i] = source[i];
}

void ScalarDevice::reduce(std::byte* destination, const std::byte* first, const std::byte* second, std::uint64_t count,
                          DataType type, ReduceKind kind) const {
  const std::size_t size = size_of(type);
  for (std::uint64_t i = 0; i < count; ++i, destination += size, first += size, second += size) {
    if (!is_float(type)) {
      with_integer(type,
                   [&]<class T>(T) { store(combine_integers(load<T>(first), load<T>(second), kind), destination); });
    } else if (kind == ReduceKind::kMax || kind == ReduceKind::kMin) {
      pick_float(destination, first, second, type, kind == ReduceKind::kMax);
    } else {
      const auto operation = [&](auto a, auto b) { return kind == ReduceKind::kSum ? a + b : a * b; };
      combine_floats(destination, to_double(first, type), to_double(second, type), type, operation);
    }
  }
}

void ScalarDevice::scale(std::byte* destination, const std::byte* source, std::uint64_t count, DataType type,
                         const std::byte* scalar) const {
  const std::size_t size = size_of(type);
  for (std::uint64_t i = 0; i < count; ++i) {
    reduce(destination + i * size, source + i * size, scalar, 1, type, ReduceKind::kProd);
  }
}

void ScalarDevice::divide(std::byte* data, std::uint64_t count, DataType type, std::uint64_t divisor) const {
  R2CCL_ASSERT(divisor > 0, "nothing is divided by zero");
  const std::size_t size = size_of(type);
  // Rounded once: from the integer to the precision that divides.
  const double by = type == DataType::kFloat64 ? static_cast<double>(divisor) : static_cast<float>(divisor);
  for (std::uint64_t i = 0; i < count; ++i, data += size) {
    if (is_float(type)) {
      combine_floats(data, to_double(data, type), by, type, [](auto a, auto b) { return a / b; });
    } else {
      with_integer(type, [&]<class T>(T) { store(divide_integer(load<T>(data), divisor), data); });
    }
  }
}

}  // namespace r2ccl
