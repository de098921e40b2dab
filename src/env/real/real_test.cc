#include "env/real/real.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace r2ccl {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TEST(SteadyClock, NeverGoesBack) {
  SteadyClock clock;
  Instant last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const Instant now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(SodiumRandom, DrawsDiffer) {
  SodiumRandom random;
  EXPECT_NE(random.next(), random.next());
  random.fill({});
}

TEST(StderrLog, FileNamesTakeHostAndProcess) {
  EXPECT_EQ(log_file_name("/x/%h.%p.log", "node1", 42), "/x/node1.42.log");
  EXPECT_EQ(log_file_name("%%h-%x-%", "node1", 42), "%h-%x-%");
}

TEST(StderrLog, LinesUpToItsLevelGoToTheFile) {
  const auto folder = std::filesystem::temp_directory_path() / ("r2ccl_log_test." + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  {
    StderrLog log(LogLevel::kWarn, (folder / "%p.log").string());
    EXPECT_TRUE(log.enabled(LogLevel::kError));
    EXPECT_FALSE(log.enabled(LogLevel::kInfo));
    log.write(LogLevel::kWarn, "NIC eth1: carrier lost");
    log.write(LogLevel::kInfo, "not wanted");
    log.write(LogLevel::kError, "second");
  }
  const std::string prefix = "r2ccl " + host_name() + ":" + std::to_string(getpid());
  EXPECT_EQ(text_of(folder / (std::to_string(getpid()) + ".log")),
            prefix + " WARN NIC eth1: carrier lost\n" + prefix + " ERROR second\n");
  std::filesystem::remove_all(folder);
}

TEST(StderrLog, AFileThatCanNotBeOpenedIsReportedOnStderr) {
  testing::internal::CaptureStderr();
  StderrLog log(LogLevel::kWarn, "/proc/no/such/file");
  log.write(LogLevel::kError, "still heard");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("/proc/no/such/file can not be opened"), std::string::npos) << text;
  EXPECT_NE(text.find("ERROR still heard\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace r2ccl
