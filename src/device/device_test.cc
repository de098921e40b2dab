#include "device/device.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/assert.h"
#include "device/cpu/scalar.h"

namespace r2ccl {
namespace {

TEST(DataType, NamesAreThoseOfNcclTests) {
  EXPECT_EQ(to_text(DataType::kInt8), "int8");
  EXPECT_EQ(to_text(DataType::kUint64), "uint64");
  EXPECT_EQ(to_text(DataType::kFloat16), "half");
  EXPECT_EQ(to_text(DataType::kFloat64), "double");
  EXPECT_EQ(to_text(DataType::kBfloat16), "bfloat16");
  EXPECT_EQ(to_text(DataType::kFloat8e4m3), "f8e4m3");
  EXPECT_EQ(to_text(DataType::kFloat8e5m2), "f8e5m2");
  EXPECT_EQ(to_text(ReduceName::kSum), "sum");
  EXPECT_EQ(to_text(ReduceName::kPreMulSum), "mulsum");
  EXPECT_THROW(to_text(static_cast<DataType>(kDataTypes)), Bug);
  EXPECT_THROW(to_text(static_cast<ReduceName>(6)), Bug);
}

TEST(Reciprocal, IsTheNearestValueOfTheType) {
  std::array<std::byte, 8> scalar{};
  for (std::size_t i = static_cast<std::size_t>(DataType::kFloat16); i < kDataTypes; ++i) {
    const auto type = static_cast<DataType>(i);
    for (const std::uint64_t divisor : {1, 2, 3, 7, 8, 48, 100}) {
      reciprocal(divisor, type, scalar);
      std::array<std::byte, 8> expected{};
      from_double(1.0 / static_cast<double>(divisor), type, expected.data());
      EXPECT_EQ(to_double(scalar.data(), type), to_double(expected.data(), type)) << to_text(type) << " 1/" << divisor;
    }
    EXPECT_THROW(reciprocal(0, type, scalar), Bug);
  }
  EXPECT_THROW(reciprocal(2, DataType::kInt32, scalar), Bug);
}

TEST(Reciprocal, OfManyRanksIsCoarseInNarrowTypes) {
  std::array<std::byte, 8> scalar{};
  reciprocal(600, DataType::kFloat8e4m3, scalar);
  EXPECT_EQ(to_double(scalar.data(), DataType::kFloat8e4m3), std::ldexp(1.0, -9));
  reciprocal(2000, DataType::kFloat8e4m3, scalar);
  EXPECT_EQ(to_double(scalar.data(), DataType::kFloat8e4m3), 0);
}

TEST(Reciprocal, WritesTheElementOnly) {
  std::array<std::byte, 8> scalar;
  scalar.fill(std::byte{0xa5});
  reciprocal(2, DataType::kFloat16, scalar);
  EXPECT_EQ(to_double(scalar.data(), DataType::kFloat16), 0.5);
  for (std::size_t i = 2; i < scalar.size(); ++i) EXPECT_EQ(scalar[i], std::byte{0xa5});
}

}  // namespace
}  // namespace r2ccl
