#include "env/settings.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace r2ccl {
namespace {

Result<Settings> parse(std::initializer_list<std::string_view> lines) {
  return Settings::parse(std::vector<std::string_view>(lines));
}

std::string error_of(std::initializer_list<std::string_view> lines) {
  const auto settings = parse(lines);
  if (settings) return "";
  EXPECT_EQ(settings.error().fault, Fault::kMisuse);
  return settings.error().what;
}

TEST(Settings, DefaultsAreTheListedOnes) {
  const Settings settings = parse({}).value();
  for (const SettingInfo& info : Settings::list()) {
    EXPECT_EQ(settings.value_text(info.name), info.default_value) << info.name;
    EXPECT_FALSE(info.meaning.empty());
    EXPECT_EQ(info.choices.empty(), info.type != SettingType::kChoice) << info.name;
  }
}

TEST(Settings, EveryTypeIsRead) {
  const Settings settings =
      parse({"PATH=/bin", "R2CCL_NICS=eth0,127.0.0.2,", "R2CCL_CHUNK_BYTES=1M", "R2CCL_PEER_TIMEOUT=1.5s",
             "R2CCL_CHECKSUM=Off", "R2CCL_FABRIC=rails", "R2CCL_FAULT=at=2s server=0 nic=1 kind=down", "R2CCL_SERVER=3",
             "R2CCL_SPIN=0", "R2CCL_NIC_SPEED=25gbit", "NCCL_DEBUG=info", "NCCL_DEBUG_FILE=/tmp/%h.%p",
             "NCCL_HOSTID=x"})
          .value();
  EXPECT_EQ(settings.nics, (std::vector<std::string>{"eth0", "127.0.0.2"}));
  EXPECT_EQ(settings.chunk_bytes, 1u << 20);
  EXPECT_EQ(settings.peer_timeout, 1500ms);
  EXPECT_EQ(settings.checksum, "off");
  EXPECT_EQ(settings.fabric, "rails");
  EXPECT_EQ(settings.fault, "at=2s server=0 nic=1 kind=down");
  EXPECT_EQ(settings.server, 3u);
  EXPECT_EQ(settings.spin, 0ns);
  EXPECT_EQ(settings.nic_speed_bytes_s, 3'125'000'000u);
  EXPECT_EQ(settings.value_text("R2CCL_NIC_SPEED"), "25gbit");
  EXPECT_EQ(settings.log_level(), LogLevel::kInfo);
  EXPECT_EQ(settings.debug_file, "/tmp/%h.%p");
  EXPECT_EQ(settings.host_id, "x");
}

TEST(Settings, AMisspeltNameIsAnErrorThatNamesTheNearest) {
  EXPECT_EQ(error_of({"R2CCL_PEER_TIMEOUTS=60s"}),
            "there is no setting R2CCL_PEER_TIMEOUTS; did you mean R2CCL_PEER_TIMEOUT?");
  EXPECT_NE(error_of({"R2CCL_NIC=eth0"}).find("did you mean R2CCL_NICS?"), std::string::npos);
  EXPECT_NE(error_of({"R2CCL_CHEKSUM"}).find("did you mean R2CCL_CHECKSUM?"), std::string::npos);
  EXPECT_NE(error_of({"R2CCL_=1"}).find("there is no setting R2CCL_;"), std::string::npos);
  EXPECT_NE(error_of({"R2CCL_peer_timeout=1s"}), "");
}

TEST(Settings, AMalformedValueIsAnErrorThatNamesTheSetting) {
  for (const std::string_view line :
       {"R2CCL_PEER_TIMEOUT=60", "R2CCL_CHUNK_BYTES=big", "R2CCL_CHECKSUM=maybe", "R2CCL_FABRIC=torus",
        "R2CCL_SERVER=-1", "R2CCL_CHUNK_BYTES=1", "R2CCL_CHUNK_BYTES=1G", "R2CCL_HEARTBEAT=0", "R2CCL_RETRY_MIN=31s",
        "R2CCL_PROBATION_MIN=2m", "R2CCL_NIC_SPEED=25", "R2CCL_NIC_SPEED=20000gbit", "R2CCL_PEER_TIMEOUT=10000h"}) {
    const std::string what = error_of({line});
    EXPECT_EQ(what.find(line.substr(0, line.find('='))), 0u) << line << ": " << what;
  }
}

TEST(Settings, AnEmptyValueMeansUnsetAndTheFirstOfTwoCounts) {
  EXPECT_EQ(parse({"R2CCL_PEER_TIMEOUT=", "R2CCL_NICS="})->peer_timeout, 60s);
  EXPECT_EQ(parse({"R2CCL_HEARTBEAT=2s", "R2CCL_HEARTBEAT=3s"})->heartbeat, 2s);
}

TEST(Settings, WhatNcclWouldIgnoreIsIgnored) {
  const auto settings = parse({"NCCL_DEBUG=LOUD", "NCCL_UNKNOWN=1", "R2CC_MODE=1"});
  ASSERT_TRUE(settings.has_value());
  EXPECT_EQ(settings->log_level(), LogLevel::kWarn);
}

TEST(Settings, TheSecretIsNeverShown) {
  const Settings settings = parse({"R2CCL_SECRET=hunter2", "R2CCL_UNIQUE_ID=abcd"}).value();
  EXPECT_EQ(settings.secret, "hunter2");
  EXPECT_EQ(settings.value_text("R2CCL_SECRET"), "(set)");
  EXPECT_EQ(settings.unique_id, "abcd");
  EXPECT_EQ(settings.value_text("R2CCL_UNIQUE_ID"), "(set)");
}

TEST(Settings, TheModeHasAnOlderNameThatGivesWay) {
  EXPECT_EQ(parse({})->mode, "auto");
  EXPECT_EQ(parse({"R2CCL_MODE=R2"})->mode, "r2");
  EXPECT_EQ(parse({"R2CC_MODE=0"})->mode, "off");
  EXPECT_EQ(parse({"R2CC_MODE=1"})->mode, "repair");
  EXPECT_EQ(parse({"R2CC_MODE=2"})->mode, "balance");
  EXPECT_EQ(parse({"R2CC_MODE=3"})->mode, "r2");
  EXPECT_EQ(parse({"R2CC_MODE="})->mode, "auto");
  EXPECT_EQ(parse({"R2CC_MODE=1", "R2CCL_MODE=auto"})->mode, "auto");
  EXPECT_EQ(error_of({"R2CC_MODE=4"}), "R2CC_MODE: '4' is none of 0|1|2|3");
  EXPECT_EQ(error_of({"R2CCL_MODE=fast"}),
            "R2CCL_MODE: 'fast' is none of off|repair|balance|r2|optcc|direct|trees|auto");
}

TEST(Settings, TheOlderNameOfTheModeAlsoLosesANicUnlessAFaultOrAModeIsNamed) {
  EXPECT_EQ(parse({})->seed_loss, SeedLoss::kNone);
  EXPECT_EQ(parse({"R2CC_MODE=0"})->seed_loss, SeedLoss::kNone);
  EXPECT_EQ(parse({"R2CC_MODE=1"})->seed_loss, SeedLoss::kInACall);
  EXPECT_EQ(parse({"R2CC_MODE=2"})->seed_loss, SeedLoss::kBeforeCalls);
  EXPECT_EQ(parse({"R2CC_MODE=3"})->seed_loss, SeedLoss::kBeforeCalls);
  EXPECT_EQ(parse({"R2CCL_MODE=repair"})->seed_loss, SeedLoss::kNone) << "the newer name only chooses";
  EXPECT_EQ(parse({"R2CC_MODE=1", "R2CCL_MODE=repair"})->seed_loss, SeedLoss::kNone);
  for (const std::string_view first : {"R2CC_MODE=1", "R2CCL_FAULT=at=2s server=0 nic=1 kind=down"}) {
    const std::string_view second =
        first == "R2CC_MODE=1" ? "R2CCL_FAULT=at=2s server=0 nic=1 kind=down" : "R2CC_MODE=1";
    const Settings both = parse({first, second}).value();
    EXPECT_EQ(both.mode, "repair");
    EXPECT_EQ(both.seed_loss, SeedLoss::kNone) << "whatever their order";
  }
  EXPECT_EQ(parse({"R2CC_MODE=2", "R2CCL_FAULT="})->seed_loss, SeedLoss::kBeforeCalls);
}

TEST(Settings, DevicesOfTheNetPluginAreOneOfTwoKinds) {
  EXPECT_EQ(parse({})->net_devices, "pooled");
  EXPECT_EQ(parse({"R2CCL_NET_DEVICES=per-nic"})->net_devices, "per-nic");
  EXPECT_EQ(error_of({"R2CCL_NET_DEVICES=all"}), "R2CCL_NET_DEVICES: 'all' is none of pooled|per-nic");
}

TEST(Settings, ThePlaceInTheJobIsRead) {
  const Settings settings =
      parse({"R2CCL_RANK=3", "R2CCL_SIZE=4", "R2CCL_LOCAL_RANK=1", "R2CCL_ALGO=ring", "NCCL_COMM_ID=10.0.0.1:5000"})
          .value();
  EXPECT_EQ(settings.rank, 3u);
  EXPECT_EQ(settings.size, 4u);
  EXPECT_EQ(settings.local_rank, 1u);
  EXPECT_EQ(settings.algorithm, "ring");
  EXPECT_EQ(settings.comm_id, "10.0.0.1:5000");
}

TEST(Settings, EnvironmentIsTakenAsItIs) {
  const char* const lines[] = {"A=1", "B=2", nullptr};
  EXPECT_EQ(environment_of(lines), (std::vector<std::string_view>{"A=1", "B=2"}));
  EXPECT_TRUE(environment_of(nullptr).empty());
}

}  // namespace
}  // namespace r2ccl
