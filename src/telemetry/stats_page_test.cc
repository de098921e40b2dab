#include "telemetry/stats_page.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace r2ccl {
namespace {

namespace fs = std::filesystem;

class StatsPageTest : public testing::Test {
 protected:
  StatsPageTest() {
    char pattern[] = "/tmp/r2ccl-stats-XXXXXX";
    directory_ = ::mkdtemp(pattern);
  }
  ~StatsPageTest() override { fs::remove_all(directory_); }
  static Stats mine(std::uint32_t rank) {
    Stats stats;
    stats.process = static_cast<std::uint64_t>(::getpid());
    stats.rank = rank;
    return stats;
  }
  std::string directory_;
};

TEST_F(StatsPageTest, AReaderSeesWhatWasPublishedLast) {
  auto page = StatsPage::create(directory_ + "/deep/er", "a");
  ASSERT_TRUE(page) << page.error().what;
  Stats stats = mine(3);
  stats.counters.replayed_bytes = 77;
  stats.nic_count = 1;
  stats.nics[0].rate_bytes_s = 1e9;
  page->publish(mine(9));
  page->publish(stats);
  page->set_reached({12, 400'000});
  const auto views = read_stats(directory_);
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].stats.rank, 3u);
  EXPECT_EQ(views[0].stats.counters.replayed_bytes, 77u);
  EXPECT_EQ(views[0].stats.nics[0].rate_bytes_s, 1e9);
  EXPECT_EQ(views[0].reached, (Reached{12, 400'000}));
}

TEST_F(StatsPageTest, ItGoesWithItsWriter) {
  {
    const auto page = StatsPage::create(directory_, "a");
  }
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(StatsPageTest, ThePageOfADeadProcessIsRemovedByTheReader) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto page = StatsPage::create(directory_, "dead");
    ::_exit(page ? 0 : 1);  // no destructor
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_FALSE(fs::is_empty(directory_));
  EXPECT_TRUE(read_stats(directory_).empty());
  EXPECT_TRUE(fs::is_empty(directory_));
}

TEST_F(StatsPageTest, ThePageOfADeadProcessIsRemovedByTheNextWriter) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto page = StatsPage::create(directory_, std::to_string(::getpid()) + ".0");
    ::_exit(page ? 0 : 1);  // no destructor
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const auto page = StatsPage::create(directory_, std::to_string(::getpid()) + ".0");
  EXPECT_FALSE(fs::exists(directory_ + "/" + std::to_string(child) + ".0"));
  EXPECT_TRUE(fs::exists(directory_ + "/" + std::to_string(::getpid()) + ".0"));
}

TEST_F(StatsPageTest, WhatIsNoPageIsLeftAlone) {
  std::ofstream(directory_ + "/other") << "a text";
  EXPECT_TRUE(read_stats(directory_).empty());
  EXPECT_TRUE(fs::exists(directory_ + "/other"));
  EXPECT_TRUE(read_stats(directory_ + "/nothing").empty());
}

TEST_F(StatsPageTest, ADirectoryThatCanNotBeIsOneSentence) {
  std::ofstream(directory_ + "/file") << "x";
  const auto page = StatsPage::create(directory_ + "/file/below", "a");
  ASSERT_FALSE(page);
  EXPECT_NE(page.error().what.find("/file/below"), std::string::npos);
}

TEST_F(StatsPageTest, AReaderNeverSeesHalfOfOne) {
  const pid_t writer = ::fork();
  if (writer == 0) {
    auto page = StatsPage::create(directory_, "a");
    for (std::uint32_t round = 0; page; ++round) {
      Stats stats = mine(round);
      stats.health_version = round;
      stats.nic_count = round;
      page->publish(stats);
    }
    ::_exit(1);
  }
  int seen = 0;
  for (int looks = 0; seen < 2000 && looks < 1'000'000; ++looks) {
    for (const StatsView& view : read_stats(directory_)) {
      EXPECT_EQ(view.stats.rank, view.stats.health_version);
      EXPECT_EQ(view.stats.nic_count, view.stats.health_version);
      ++seen;
    }
  }
  EXPECT_EQ(seen, 2000);
  ::kill(writer, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(writer, &status, 0), writer);
  EXPECT_TRUE(WIFSIGNALED(status)) << "it had no page";
}

}  // namespace
}  // namespace r2ccl
