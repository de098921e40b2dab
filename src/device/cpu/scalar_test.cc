// The reference against definitions and against values worked out by hand.

#include "device/cpu/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/assert.h"

namespace r2ccl {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const ScalarDevice kDevice;

std::uint64_t code_of(double value, DataType type) {
  std::uint64_t bits = 0;
  from_double(value, type, reinterpret_cast<std::byte*>(&bits));
  return bits;
}
double value_of(std::uint64_t bits, DataType type) {
  return to_double(reinterpret_cast<const std::byte*>(&bits), type);
}
double reduced(double a, double b, DataType type, ReduceKind kind) {
  std::uint64_t x = code_of(a, type);
  const std::uint64_t y = code_of(b, type);
  auto* const at = reinterpret_cast<std::byte*>(&x);
  kDevice.reduce(at, at, reinterpret_cast<const std::byte*>(&y), 1, type, kind);
  return value_of(x, type);
}

struct Narrow {
  DataType type;
  std::uint32_t largest;  // code of the largest finite number
};
constexpr Narrow kNarrow[] = {{DataType::kFloat16, 0x7bff},
                              {DataType::kBfloat16, 0x7f7f},
                              {DataType::kFloat8e4m3, 0x7e},
                              {DataType::kFloat8e5m2, 0x7b}};

TEST(Scalar, FormatsHaveTheirLimits) {
  EXPECT_EQ(value_of(0x7bff, DataType::kFloat16), 65504);
  EXPECT_EQ(value_of(0x0001, DataType::kFloat16), std::ldexp(1.0, -24));
  EXPECT_EQ(value_of(0x7f7f, DataType::kBfloat16), 0x1.fep127);
  EXPECT_EQ(value_of(0x0001, DataType::kBfloat16), std::ldexp(1.0, -133));
  EXPECT_EQ(value_of(0x7e, DataType::kFloat8e4m3), 448);
  EXPECT_EQ(value_of(0x01, DataType::kFloat8e4m3), std::ldexp(1.0, -9));
  EXPECT_EQ(value_of(0x7b, DataType::kFloat8e5m2), 57344);
  EXPECT_EQ(value_of(0x01, DataType::kFloat8e5m2), std::ldexp(1.0, -16));
  EXPECT_EQ(value_of(0x7c, DataType::kFloat8e5m2), kInfinity);
  EXPECT_EQ(value_of(0xfc00, DataType::kFloat16), -kInfinity);
  EXPECT_EQ(value_of(0x78, DataType::kFloat8e4m3), 256) << "the highest exponent holds numbers";
  EXPECT_TRUE(std::isnan(value_of(0xff, DataType::kFloat8e4m3)));
  EXPECT_TRUE(std::isnan(value_of(0x7d, DataType::kFloat8e5m2)));
}

// The definition of rounding to nearest even: halfway between neighbours goes to the even code, anything else to
// the nearer one.
TEST(Scalar, EveryNarrowNumberRoundTripsAndEveryGapIsHalved) {
  for (const auto& [type, largest] : kNarrow) {
    const std::uint32_t sign = size_of(type) == 1 ? 0x80 : 0x8000;
    for (std::uint32_t code = 0; code <= largest; ++code) {
      const double value = value_of(code, type);
      ASSERT_EQ(code_of(value, type), code) << to_text(type);
      ASSERT_EQ(code_of(-value, type), code | sign) << to_text(type);
      if (code == largest) break;
      const double next = value_of(code + 1, type);
      ASSERT_LT(value, next) << to_text(type) << " code " << code;
      const double middle = (value + next) / 2;
      ASSERT_EQ(code_of(middle, type), code + code % 2) << to_text(type) << " code " << code;
      ASSERT_EQ(code_of(std::nextafter(middle, 0), type), code) << to_text(type) << " code " << code;
      ASSERT_EQ(code_of(std::nextafter(middle, kInfinity), type), code + 1) << to_text(type) << " code " << code;
    }
  }
}

TEST(Scalar, OverflowBecomesInfinityOrSaturates) {
  EXPECT_EQ(code_of(65519.99, DataType::kFloat16), 0x7bff);
  EXPECT_EQ(code_of(65520, DataType::kFloat16), 0x7c00);
  EXPECT_EQ(code_of(-1e300, DataType::kFloat16), 0xfc00);
  EXPECT_EQ(code_of(3.4e38, DataType::kBfloat16), 0x7f80);
  EXPECT_EQ(code_of(1e300, DataType::kFloat32), 0x7f800000);
  for (const double large : {448.0, 465.0, 480.0, 1e300, kInfinity}) {
    EXPECT_EQ(code_of(large, DataType::kFloat8e4m3), 0x7e) << large;
    EXPECT_EQ(code_of(-large, DataType::kFloat8e4m3), 0xfe) << large;
  }
  for (const double large : {57344.0, 61440.0, 1e300, kInfinity})
    EXPECT_EQ(code_of(large, DataType::kFloat8e5m2), 0x7b) << large;
}

TEST(Scalar, ThereIsOneNan) {
  EXPECT_EQ(code_of(-kNan, DataType::kFloat16), 0x7fff);
  EXPECT_EQ(code_of(-kNan, DataType::kBfloat16), 0x7fff);
  EXPECT_EQ(code_of(-kNan, DataType::kFloat8e4m3), 0x7f);
  EXPECT_EQ(code_of(-kNan, DataType::kFloat8e5m2), 0x7f);
  EXPECT_EQ(code_of(-kNan, DataType::kFloat32), 0x7fffffff);
  EXPECT_EQ(code_of(-kNan, DataType::kFloat64), 0x7fffffffffffffff);
}

TEST(Scalar, FloatsReduceAsTheContractSays) {
  for (std::size_t i = static_cast<std::size_t>(DataType::kFloat16); i < kDataTypes; ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(reduced(1.5, -0.25, type, ReduceKind::kSum), 1.25);
    EXPECT_EQ(reduced(1.5, -0.5, type, ReduceKind::kProd), -0.75);
    EXPECT_FALSE(std::signbit(reduced(-0.0, 0.0, type, ReduceKind::kMax)));
    EXPECT_FALSE(std::signbit(reduced(0.0, -0.0, type, ReduceKind::kMax)));
    EXPECT_TRUE(std::signbit(reduced(-0.0, 0.0, type, ReduceKind::kMin)));
    EXPECT_TRUE(std::signbit(reduced(0.0, -0.0, type, ReduceKind::kMin)));
    for (const ReduceKind kind : {ReduceKind::kSum, ReduceKind::kProd, ReduceKind::kMax, ReduceKind::kMin}) {
      EXPECT_TRUE(std::isnan(reduced(kNan, 1, type, kind)));
      EXPECT_TRUE(std::isnan(reduced(1, kNan, type, kind)));
    }
  }
  EXPECT_EQ(reduced(448, 448, DataType::kFloat8e4m3, ReduceKind::kSum), 448);
  EXPECT_EQ(reduced(65504, 65504, DataType::kFloat16, ReduceKind::kSum), kInfinity);
  EXPECT_EQ(reduced(2048, 1, DataType::kFloat16, ReduceKind::kSum), 2048) << "a tie goes to even";
}

TEST(Scalar, AnInfinityOfE5m2SurvivesMaxAndSaturatesInASum) {
  const auto infinity = std::byte{0x7c};
  const auto one = std::byte{0x3c};
  std::byte result{};
  kDevice.reduce(&result, &infinity, &one, 1, DataType::kFloat8e5m2, ReduceKind::kMax);
  EXPECT_EQ(result, infinity);
  kDevice.reduce(&result, &infinity, &one, 1, DataType::kFloat8e5m2, ReduceKind::kSum);
  EXPECT_EQ(result, std::byte{0x7b});
}

TEST(Scalar, IntegersWrapAndDivideTowardZero) {
  EXPECT_EQ(reduced(127, 1, DataType::kInt8, ReduceKind::kSum), -128);
  EXPECT_EQ(reduced(-128, -1, DataType::kInt8, ReduceKind::kProd), -128);
  EXPECT_EQ(reduced(255, 255, DataType::kUint8, ReduceKind::kProd), 1);
  EXPECT_EQ(reduced(-2147483648.0, -1, DataType::kInt32, ReduceKind::kSum), 2147483647);
  EXPECT_EQ(reduced(65536, 65537, DataType::kUint32, ReduceKind::kProd), 65536);
  EXPECT_EQ(reduced(-1, 1, DataType::kInt64, ReduceKind::kMax), 1);
  EXPECT_EQ(reduced(4294967296.0, 4294967297.0, DataType::kUint64, ReduceKind::kProd), 4294967296.0);
  std::int32_t values[] = {-7, 7, std::numeric_limits<std::int32_t>::min()};
  kDevice.divide(reinterpret_cast<std::byte*>(values), 3, DataType::kInt32, 2);
  EXPECT_EQ(values[0], -3);
  EXPECT_EQ(values[1], 3);
  EXPECT_EQ(values[2], -1073741824);
}

TEST(Scalar, IntegersRefuseWhatDoesNotFit) {
  EXPECT_EQ(code_of(-0.5, DataType::kUint8), 0u);
  EXPECT_EQ(code_of(255.5, DataType::kUint8), 255u);
  EXPECT_THROW(code_of(256, DataType::kUint8), Bug);
  EXPECT_THROW(code_of(-1, DataType::kUint8), Bug);
  EXPECT_THROW(code_of(kNan, DataType::kInt32), Bug);
  EXPECT_THROW(code_of(std::ldexp(1.0, 63), DataType::kInt64), Bug);
  EXPECT_EQ(code_of(-std::ldexp(1.0, 63), DataType::kInt64), std::uint64_t{1} << 63);
}

}  // namespace
}  // namespace r2ccl
