#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/r2ccl/common/command.h"
#include "apps/r2ccl/common/json.h"
#include "telemetry/stats_page.h"
#include "testing/test_console.h"

namespace r2ccl::apps {
namespace {

TEST(Status, ShowsWhatProcessesShowOfThemselves) {
  char pattern[] = "/tmp/r2ccl-status-XXXXXX";
  const std::string directory = ::mkdtemp(pattern);
  const std::string setting = "R2CCL_STATS=" + directory;
  const auto say = [&](const std::vector<std::string>& arguments) {
    TestConsole heard;
    EXPECT_EQ(run_command_line(arguments, {heard, {setting}}), kExitOk) << heard.err_text;
    return heard.out_text;
  };
  EXPECT_EQ(say({"status"}), "no process of R²CCL shows itself\n");
  {
    auto page = StatsPage::create(directory, std::to_string(::getpid()) + ".0");
    ASSERT_TRUE(page);
    Stats stats;
    stats.process = static_cast<std::uint64_t>(::getpid());
    stats.rank = 3;
    stats.size = 8;
    page->publish(stats);
    page->set_reached({17, 0});
    const auto object = parse_json(say({"status", "--json"}));
    ASSERT_EQ(object["processes"].size(), 1u);
    EXPECT_EQ(object["processes"][0]["operation"], 17);
    EXPECT_NE(say({"status"}).find("3 of 8"), std::string::npos);
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace r2ccl::apps
