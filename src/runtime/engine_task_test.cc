// What an engine does for a task that has overridden no more than it must; data flows between two processes in memory.

#include <gtest/gtest.h>

#include <array>

#include "runtime/engine.h"
#include "testing/engine_net.h"

namespace r2ccl {
namespace {

struct NeedsNothing final : EngineTask {
  void on_completion(ProcessId, const Completion&) override {}
  void on_notice(ProcessId, ByteView) override {}
  Turn step(Instant) override { return {}; }
};

TEST(EngineTasks, AnEarlyMessageThatATaskDoesNotWantUsesNoGrantUp) {
  SessionLimits limits;
  limits.hand_over_early = true;
  limits.eager_bytes = 4096;
  test::EngineNet net(2, 2, limits);
  const UniqueId id = net.make_id();
  for (std::uint32_t rank = 0; rank < 2; ++rank) net.engine(rank).join(id, rank, 2);
  ASSERT_TRUE(net.run([&] { return net.engine(0).ready() && net.engine(1).ready(); }));
  NeedsNothing here, there;
  net.engine(0).attach({1}, here);
  net.engine(1).attach({1}, there);
  net.engine(0).session({2}).join({1}, Secret{});
  net.engine(1).session({1}).join({1}, Secret{});
  std::array<std::byte, 1000> data{};
  HostRegion region(data.data(), data.size());
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(net.engine(0).session({2}).send({1}, {5}, {&region, 0, data.size()}, 0, i));
  }
  const auto& sent = net.node(0).telemetry.counters.chunks_sent;
  EXPECT_TRUE(net.run([&] { return sent >= 20; }, 1s)) << sent << " messages fitted into the grant";
  net.engine(0).detach({1});
  net.engine(1).detach({1});
}

}  // namespace
}  // namespace r2ccl
