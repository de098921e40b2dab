// The papers' figures, within one percent, from schedules that were proven and timed.

#include "sim/study/papers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/sanitized.h"

namespace r2ccl::sim {
namespace {

// Rows of more ranks take minutes: `r2ccl sim papers`.
void expect_close(const std::string& table, std::uint32_t ranks, std::size_t at_least, double tolerance) {
  const std::uint32_t most = kSanitized ? std::min(ranks, 8U) : ranks;
  const Result<std::vector<PaperRow>> rows = paper_rows({.table = table, .ranks = most, .threads = 1, .progress = {}});
  ASSERT_TRUE(rows) << rows.error().what;
  if (!kSanitized) {
    EXPECT_GE(rows->size(), at_least);
  }
  for (const PaperRow& row : *rows) {
    const bool a_limit = row.name.find("(at most)") != std::string::npos;
    const double difference = row.relative_difference();
    EXPECT_LE(a_limit ? difference : std::abs(difference), tolerance)
        << fmt::format("{}, {}: paper {:.4f}, ours {:.4f}", row.table, row.name, row.paper, row.ours);
  }
}

TEST(Papers, R2cclModelWithinOnePercent) {
  expect_close("R2CCL 5.2", 32, 27, 0.01);
}
TEST(Papers, R2cclArtifactWithinOnePercent) {
  expect_close("R2CCL 8.6", 16, 8, 0.01);
}
TEST(Papers, R2cclHeadlineWithinOnePercent) {
  expect_close("R2CCL headline", 16, 3, 0.01);
}
TEST(Papers, R2cclTrainingWithinOnePercent) {
  expect_close("R2CCL 8.3", 16, 2, 0.01);
}
TEST(Papers, OptccSlotsWithinOnePercent) {
  expect_close("OptCC 8.3", 16, 84, 0.01);
}
TEST(Papers, OptccSeveralStragglersWithinOnePercent) {
  expect_close("OptCC 5", 64, 18, 0.01);
}
TEST(Papers, OptccServersWithinOnePercent) {
  expect_close("OptCC 6", 64, 15, 0.01);
}

}  // namespace
}  // namespace r2ccl::sim
