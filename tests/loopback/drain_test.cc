// Taking a NIC out of service in the middle of traffic, and putting it back.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/loopback/support/pair.h"

namespace r2ccl::loopback {
namespace {

std::size_t chunks_on(const EventLog& log, NicId nic, std::size_t from) {
  const std::vector<Event> events = log.copy(from);
  return static_cast<std::size_t>(std::ranges::count_if(events, [&](const Event& event) {
    return event.kind == EventKind::kChunkSent && event.path == PathId{nic, nic};
  }));
}

class DrainTest : public testing::TestWithParam<std::size_t> {};

TEST_P(DrainTest, DrainedNicLosesAndRepeatsNothingAndCarriesAgainWhenUndrained) {
  const std::size_t end = GetParam();
  const NicId nic{2};
  Pair pair({.shape = {.streams = 3, .window = 4, .sizes = {8, 100'000, 1 << 20}}});
  ASSERT_TRUE(pair.traffic_goes_on(100)) << pair.traffic_failure();

  ASSERT_TRUE(pair.tell(end, {.kind = Command::Kind::kDrain, .nic = nic}).ok);
  for (const std::size_t each : {0, 1}) {
    EXPECT_TRUE(
        pair.tell(each, {.kind = Command::Kind::kWaitState, .nic = nic, .state = PathState::kDrained, .time = 10s}).ok)
        << "end " << each << " does not see the path as drained";
  }
  const std::array<std::size_t, 2> drained_at{pair.log(0).size(), pair.log(1).size()};
  ASSERT_TRUE(pair.traffic_goes_on(200)) << pair.traffic_failure();
  for (const std::size_t each : {0, 1}) EXPECT_EQ(chunks_on(pair.log(each), nic, drained_at[each]), 0u);

  ASSERT_TRUE(pair.tell(end, {.kind = Command::Kind::kUndrain, .nic = nic}).ok);
  ASSERT_TRUE(pair.settle(10s));
  const std::array<std::size_t, 2> back_at{pair.log(0).size(), pair.log(1).size()};
  ASSERT_TRUE(pair.traffic_goes_on(200)) << pair.traffic_failure();
  for (const std::size_t each : {0, 1}) EXPECT_GT(chunks_on(pair.log(each), nic, back_at[each]), 0u);

  EXPECT_EQ(pair.stop_traffic(), "");
  for (const std::size_t each : {0, 1}) {
    const Counters counters = pair.tell(each, {.kind = Command::Kind::kStatus}).counters;
    EXPECT_EQ(counters.replayed_chunks, 0u) << "end " << each;
    EXPECT_EQ(counters.resent_chunks, 0u) << "end " << each;
    EXPECT_EQ(counters.hedged_chunks, 0u) << "end " << each;
    EXPECT_EQ(counters.duplicate_chunks, 0u) << "end " << each;
    for (const Event& event : pair.log(each).copy()) {
      if (event.kind != EventKind::kPathDown) continue;
      EXPECT_EQ(event.path, (PathId{nic, nic}));
      EXPECT_EQ(event.bytes, 0u) << "bytes were under way when the path closed";
    }
  }
  EXPECT_EQ(pair.end(), "");
}

INSTANTIATE_TEST_SUITE_P(EitherEnd, DrainTest, testing::Values(0u, 1u));

}  // namespace
}  // namespace r2ccl::loopback
