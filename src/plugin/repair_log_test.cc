#include "plugin/repair_log.h"

#include <gtest/gtest.h>

namespace r2ccl::plugin {
namespace {

struct Lines final : Log {
  bool enabled(LogLevel) const override { return true; }
  void write(LogLevel level, std::string_view line) override {
    EXPECT_EQ(level, LogLevel::kWarn);
    lines.emplace_back(line);
  }
  std::vector<std::string> lines;
};

Event make(EventKind kind, Duration at, std::uint8_t nic, Cause cause = Cause::kNone, std::uint64_t bytes = 0) {
  Event event;
  event.kind = kind;
  event.at = Instant(at);
  event.cause = cause;
  event.path = {{nic}, {nic}};
  event.bytes = bytes;
  return event;
}

class RepairLogTest : public testing::Test {
 protected:
  Lines log_;
  RepairLog repair_{log_, [](PathId path, ProcessId) { return "path " + to_text(path); }};
};

TEST_F(RepairLogTest, OneFailureIsOneLineWithBytesAndTime) {
  EXPECT_EQ(repair_.step(Instant(1s)), kNever);
  repair_.on_event(make(EventKind::kChunkReplayed, 900ms, 0, Cause::kNone, 50));  // of nothing we know
  repair_.on_event(make(EventKind::kPathDown, 1s, 1, Cause::kCarrier));
  repair_.on_event(make(EventKind::kPathDown, 1001ms, 2, Cause::kSilent));
  repair_.on_event(make(EventKind::kChunkReplayed, 1002ms, 0, Cause::kNone, 1000));
  repair_.on_event(make(EventKind::kChunkReplayed, 1004ms, 0, Cause::kNone, 500));
  EXPECT_EQ(repair_.step(Instant(1050ms)), Instant(1100ms));
  EXPECT_TRUE(log_.lines.empty());
  EXPECT_EQ(repair_.step(Instant(1100ms)), kNever);
  ASSERT_EQ(log_.lines.size(), 1u);
  const std::string cause_a = to_text(Cause::kCarrier), cause_b = to_text(Cause::kSilent);
  EXPECT_EQ(log_.lines[0], "Path down: path 1-1: " + cause_a + ", path 2-2: " + cause_b +
                               "; 1500 bytes resent on other paths; repaired in 4.0 ms");
}

TEST_F(RepairLogTest, WhatIsNoFailureIsNotSaid) {
  repair_.on_event(make(EventKind::kPathDown, 1s, 1, Cause::kDrained));
  EXPECT_EQ(repair_.step(Instant(2s)), kNever);
  repair_.on_event(make(EventKind::kPathDown, 3s, 1, Cause::kReset));
  repair_.on_event(make(EventKind::kPeerDown, 3s, 1));
  EXPECT_EQ(repair_.step(Instant(4s)), kNever);
  EXPECT_TRUE(log_.lines.empty());
}

}  // namespace
}  // namespace r2ccl::plugin
