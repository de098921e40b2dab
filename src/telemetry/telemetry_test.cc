#include "telemetry/telemetry.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace r2ccl {
namespace {

Event numbered(std::uint64_t number) {
  return {.kind = EventKind::kChunkSent, .number = number};
}

TEST(Telemetry, EventsComeOldestFirst) {
  Telemetry telemetry(8);
  EXPECT_TRUE(telemetry.events().empty());
  for (std::uint64_t n = 0; n < 5; ++n) telemetry.record(numbered(n));
  const auto events = telemetry.events();
  ASSERT_EQ(events.size(), 5u);
  for (std::uint64_t n = 0; n < 5; ++n) EXPECT_EQ(events[n].number, n);
}

TEST(Telemetry, OldEventsAreOverwritten) {
  for (const std::size_t size : {0, 1, 3, 8}) {
    Telemetry telemetry(size);
    for (std::uint64_t n = 0; n < 20; ++n) telemetry.record(numbered(n));
    const auto events = telemetry.events();
    ASSERT_EQ(events.size(), size == 0 ? 1 : size);
    for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i].number, 20 - events.size() + i);
  }
}

TEST(Telemetry, ListenerHearsEveryEvent) {
  struct Count final : EventListener {
    void on_event(const Event& event) override { sum += event.number; }
    std::uint64_t sum = 0;
  } count;
  Telemetry telemetry(2);
  telemetry.set_listener(&count);
  for (std::uint64_t n = 1; n <= 10; ++n) telemetry.record(numbered(n));
  EXPECT_EQ(count.sum, 55u);
}

TEST(EventKind, EachHasItsOwnText) {
  std::set<std::string> texts;
  const int count = static_cast<int>(EventKind::kFaultHealed) + 1;
  for (int i = 0; i < count; ++i) texts.insert(to_text(static_cast<EventKind>(i)));
  EXPECT_EQ(texts.size(), static_cast<std::size_t>(count));
}

}  // namespace
}  // namespace r2ccl
