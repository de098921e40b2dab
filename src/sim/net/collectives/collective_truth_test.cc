// The right answers themselves, against values worked out by hand.

#include <gtest/gtest.h>

#include <cstring>

#include "sim/net/collectives/collective_truth.h"

namespace r2ccl::sim {
namespace {

constexpr std::uint64_t kName = 5;
constexpr std::uint32_t kRanks = 3;

template <class T>
T at(const Bytes& bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

PlannedCall call_of(CallKind kind, ReduceName op = ReduceName::kSum) {
  return {.kind = kind, .count = 4, .type = DataType::kInt8, .op = op, .root = 1, .in_place = 0};
}

TEST(CollectiveTruth, ReductionsWrapAndAveragesRoundTowardZero) {
  for (const ReduceName op : {ReduceName::kSum, ReduceName::kProd, ReduceName::kMax, ReduceName::kMin, ReduceName::kAvg,
                              ReduceName::kPreMulSum}) {
    const CallTruth truth(kName, call_of(CallKind::kAllReduce, op), kRanks);
    for (std::size_t i = 0; i < 4; ++i) {
      const int a = at<std::int8_t>(truth.input(0), i);
      const int b = at<std::int8_t>(truth.input(1), i);
      const int c = at<std::int8_t>(truth.input(2), i);
      const auto factor = [](std::uint32_t rank) { return static_cast<std::int8_t>(scalar_of(kName, rank)); };
      int expected = a + b + c;
      if (op == ReduceName::kProd) expected = a * b * c;
      if (op == ReduceName::kMax) expected = std::max({a, b, c});
      if (op == ReduceName::kMin) expected = std::min({a, b, c});
      if (op == ReduceName::kAvg) expected = static_cast<std::int8_t>(a + b + c) / 3;
      if (op == ReduceName::kPreMulSum) expected = a * factor(0) + b * factor(1) + c * factor(2);
      for (std::uint32_t rank = 0; rank < kRanks; ++rank)
        EXPECT_EQ(at<std::int8_t>(truth.output(rank), i), static_cast<std::int8_t>(expected)) << static_cast<int>(op);
    }
  }
}

TEST(CollectiveTruth, BlocksGoWhereTheyBelong) {
  const CallTruth swap(kName, call_of(CallKind::kAllToAll), kRanks);
  const CallTruth gather(kName, call_of(CallKind::kGather), kRanks);
  const CallTruth scatter(kName, call_of(CallKind::kScatter), kRanks);
  EXPECT_TRUE(gather.output(0).empty());
  EXPECT_TRUE(scatter.input(2).empty());
  ASSERT_EQ(gather.output(1).size(), 12u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(swap.output(2)[4 + i], swap.input(1)[8 + i]);
    EXPECT_EQ(gather.output(1)[8 + i], gather.input(2)[i]);
    EXPECT_EQ(scatter.output(2)[i], scatter.input(1)[8 + i]);
  }
}

TEST(CollectiveTruth, InPlaceSharesOneBuffer) {
  PlannedCall call = call_of(CallKind::kReduceScatter);
  call.in_place = 0b100;
  const CallLayout layout = layout_of(call, 2, kRanks);
  EXPECT_TRUE(layout.shared);
  EXPECT_EQ(layout.shared_bytes(), 12u);
  EXPECT_EQ(layout.output_at, 8u);
  EXPECT_FALSE(layout_of(call, 1, kRanks).shared);
}

}  // namespace
}  // namespace r2ccl::sim
