#include "schedule/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace r2ccl {
namespace {

constexpr int kLayouts = 2000;

struct Dice {
  std::mt19937 engine{11};
  std::uint32_t below(std::uint32_t end) { return engine() % end; }
};

// About a third of the weights are zero; never all.
std::vector<double> any_weights(Dice& dice) {
  std::vector<double> weights(1 + dice.below(12));
  for (double& w : weights) w = dice.below(3) == 0 ? 0 : dice.below(1000) / 7.0;
  weights[dice.below(static_cast<std::uint32_t>(weights.size()))] = 1 + dice.below(100);
  return weights;
}

Layout any_layout(Dice& dice) {
  Layout layout;
  layout.bounds = piece_bounds(any_weights(dice), 8 + dice.below(200));
  layout.segments = 1 + dice.below(5);
  layout.order = dice.below(2) == 0 ? Layout::Order::kSegmentsOutside : Layout::Order::kSegmentsInside;
  return layout;
}

TEST(Layout, PiecesAndSegmentsTileTheVector) {
  Dice dice;
  for (int i = 0; i < kLayouts; ++i) {
    const Layout layout = any_layout(dice);
    const std::uint64_t count = dice.below(400);
    std::vector<int> covered(count, 0);
    for (std::uint32_t piece = 0; piece < layout.pieces(); ++piece) {
      for (std::uint32_t segment = 0; segment < layout.segments; ++segment) {
        const ElementRange r = layout.range(piece, segment, count);
        ASSERT_LE(r.begin, r.end);
        ASSERT_LE(r.end, count);
        for (std::uint64_t e = r.begin; e < r.end; ++e) ++covered[e];
        ASSERT_TRUE(r.empty() || layout.share(piece) > 0);
      }
    }
    ASSERT_EQ(covered, std::vector<int>(count, 1)) << "layout " << i;
  }
}

TEST(Layout, ASpanIsTheUnionOfItsPiecesWithinASegment) {
  Dice dice;
  for (int i = 0; i < kLayouts; ++i) {
    Layout layout = any_layout(dice);
    layout.order = Layout::Order::kSegmentsOutside;
    const std::uint32_t first = dice.below(layout.pieces());
    layout.spans = {{first, 1 + dice.below(layout.pieces() - first)}};
    const std::uint64_t count = dice.below(400);
    const std::uint32_t last = layout.spans[0].first + layout.spans[0].count - 1;
    for (std::uint32_t segment = 0; segment < layout.segments; ++segment) {
      const ElementRange whole = layout.range(layout.pieces(), segment, count);
      ASSERT_EQ(whole.begin, layout.range(first, segment, count).begin);
      ASSERT_EQ(whole.end, layout.range(last, segment, count).end);
    }
  }
}

TEST(Layout, SharesAddUpToOne) {
  Dice dice;
  for (int i = 0; i < kLayouts; ++i) {
    const Layout layout = any_layout(dice);
    double sum = 0;
    for (std::uint32_t piece = 0; piece < layout.pieces(); ++piece) sum += layout.share(piece) * layout.segments;
    ASSERT_NEAR(sum, 1, 1e-9);
  }
}

TEST(Layout, BoundsFollowTheirWeights) {
  Dice dice;
  const std::uint64_t unit = 1 << 24;
  for (int i = 0; i < kLayouts; ++i) {
    const std::vector<double> weights = any_weights(dice);
    const std::vector<std::uint64_t> bounds = piece_bounds(weights, unit);
    ASSERT_EQ(bounds.size(), weights.size() + 1);
    ASSERT_EQ(bounds.front(), 0U);
    ASSERT_EQ(bounds.back(), unit);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::size_t k = 0; k < weights.size(); ++k) {
      ASSERT_LE(bounds[k], bounds[k + 1]);
      const auto size = static_cast<double>(bounds[k + 1] - bounds[k]);
      ASSERT_TRUE(size == 0 || weights[k] > 0);
      ASSERT_NEAR(size, weights[k] / sum * unit, 1.5);
    }
  }
}

TEST(Layout, EqualPiecesAreExactForAnyMultiple) {
  const Layout layout = Layout::equal(7, 1);
  for (std::uint32_t piece = 0; piece < 7; ++piece) {
    EXPECT_EQ(layout.range(piece, 0, 7 * 1001), (ElementRange{piece * 1001ULL, (piece + 1) * 1001ULL}));
  }
}

TEST(Layout, HugeCountsDoNotOverflow) {
  Layout layout = Layout::equal(3, 64);
  const std::uint64_t count = std::uint64_t{1} << 62;
  EXPECT_EQ(layout.range(2, 63, count).end, count);
  layout.bounds = piece_bounds({1, 1, 1});
  EXPECT_EQ(layout.range(2, 63, count).end, count);
}

}  // namespace
}  // namespace r2ccl
