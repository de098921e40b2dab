#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "telemetry/stats_page.h"
#include "tools/command.h"

namespace r2ccl::tools {
namespace {

class Heard final : public Console {
 public:
  void out(std::string_view text) override { said += text; }
  void err(std::string_view text) override { said += text; }
  bool out_is_terminal() const override { return false; }
  bool err_is_terminal() const override { return false; }
  std::string said;
};

TEST(Status, ShowsWhatProcessesShowOfThemselves) {
  char pattern[] = "/tmp/r2ccl-status-XXXXXX";
  const std::string directory = ::mkdtemp(pattern);
  const std::string setting = "R2CCL_STATS=" + directory;
  const auto say = [&](const std::vector<std::string>& arguments) {
    Heard heard;
    EXPECT_EQ(run_command_line(arguments, {heard, {setting}}), kExitOk) << heard.said;
    return heard.said;
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
    const auto object = nlohmann::json::parse(say({"status", "--json"}), nullptr, false);
    ASSERT_EQ(object["processes"].size(), 1u);
    EXPECT_EQ(object["processes"][0]["operation"], 17);
    EXPECT_NE(say({"status"}).find("3 of 8"), std::string::npos);
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace r2ccl::tools
