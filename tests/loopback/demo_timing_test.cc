// The demo as a user starts it, on loopback NICs, and its page as a browser shows it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/r2ccl/common/json.h"
#include "tests/shell.h"

namespace r2ccl {
namespace {

using testing::HasSubstr;

// Slow NICs and short AllReduces, so that it is the faults that take time and not this machine.
constexpr const char* kSmall = "demo --loopback --seconds 6 --rate 80mbit --bytes 512K";

std::filesystem::path scratch(const std::string& name) {
  return std::filesystem::temp_directory_path() / fmt::format("r2ccl-demo-{}-{}", ::getpid(), name);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Demo, EveryFaultIsRepairedAndEveryElementRight) {
  const Ran ran = shell(fmt::format("{} {} --json 2>&1", R2CCL_TOOL, kSmall));
  EXPECT_EQ(ran.status, 0) << ran.out;
  const auto summary = apps::parse_json(ran.out);
  ASSERT_TRUE(summary.is_object()) << ran.out;
  EXPECT_EQ(summary["wrong"], 0);
  EXPECT_FALSE(summary["lab"]);
  // One rank sums 512 KiB of floats and a vote each time; all four are checked, and end after the same one.
  const std::uint64_t rounds = summary["collectives"];
  EXPECT_GT(rounds, 10u);
  EXPECT_EQ(summary["checked"], rounds * (512 * 1024 / 4 + 1) * 4);
  ASSERT_EQ(summary["faults"].size(), 3u);
  for (const auto& fault : summary["faults"]) {
    EXPECT_TRUE(fault["mended"]) << fault.dump();
    for (const char* moment : {"at_ms", "noticed_ms", "repaired_ms", "healed_ms", "returned_ms"})
      EXPECT_TRUE(fault[moment].is_number()) << moment << " of " << fault.dump();
  }
}

TEST(Demo, SaysWhereItRunsAndWhatHappened) {
  const Ran ran =
      shell(fmt::format("{} demo --loopback --seconds 3 --servers 2 --nics 2 --rate 80mbit --bytes 256K "
                        "--fault 'at=1s server=0 nic=1 kind=cable for=1s' 2>&1",
                        R2CCL_TOOL));
  EXPECT_EQ(ran.status, 0) << ran.out;
  for (const char* words : {"2 servers with 2 NICs of 80 mbit/s", "Loopback NICs", "- server 0 NIC 1: cable pulled",
                            "repaired after", "back in use", "0 wrong; 1 of 1 faults repaired"})
    EXPECT_THAT(ran.out, HasSubstr(words));
  EXPECT_EQ(ran.out.find('\033'), std::string::npos) << "nothing is drawn where nobody looks";
}

TEST(Demo, ThePageIsDrawnInABrowser) {
  if (shell("command -v chromium").status != 0)
    GTEST_SKIP() << "chromium is not installed (package chromium); with it the demo's page is looked at.";
  const auto page = scratch("report.html"), picture = scratch("report.png");
  const Ran ran = shell(fmt::format("{} {} --report {} 2>&1", R2CCL_TOOL, kSmall, page.string()));
  EXPECT_EQ(ran.status, 0) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr(page.string()));
  const std::string browser = fmt::format(
      "timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir={} --window-size=1240,1900",
      scratch("profile").string());
  const Ran dom = shell(fmt::format("{} --dump-dom file://{} 2>/dev/null", browser, page.string()));
  EXPECT_EQ(dom.status, 0);
  // Set by the last line of its script: nothing before it threw.
  EXPECT_THAT(dom.out, HasSubstr("data-ready=\"yes\""));
  EXPECT_EQ(count(dom.out, "class=\"nic\""), 16u);
  EXPECT_EQ(count(dom.out, "class=\"broken\" x="), 3u);
  EXPECT_EQ(count(dom.out, "class=\"card fault\""), 3u);
  EXPECT_THAT(dom.out, HasSubstr("every element right · 3 of 3 faults repaired"));
  EXPECT_THAT(dom.out, HasSubstr("<td><i></i>server 0 NIC 1: cable pulled</td>"));
  EXPECT_EQ(dom.out.find("NaN"), std::string::npos);
  const Ran drawn = shell(fmt::format("{} --screenshot={} file://{} 2>&1", browser, picture.string(), page.string()));
  EXPECT_EQ(drawn.status, 0) << drawn.out;
  std::error_code error;
  EXPECT_GT(std::filesystem::file_size(picture, error), 50'000u) << "an empty page is a small picture";
  for (const auto& left : {page, picture, scratch("profile")}) std::filesystem::remove_all(left, error);
}

}  // namespace
}  // namespace r2ccl
