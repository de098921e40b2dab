// A peer that is slow, busy or asleep is no fault: no path goes down because of it. Each takes ten seconds of
// waiting, so ctest begins them early and beside others.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <stdexcept>

#include "tests/loopback/support/pair.h"

namespace r2ccl::loopback {
namespace {

constexpr Duration kPause = 10s;
const TrafficShape kShape{.streams = 3, .window = 3, .sizes = {8, 60'000, 600'000}};

void require(bool holds, const std::string& sentence) {
  if (!holds) throw std::runtime_error(sentence);
}

void require_traffic(Pair& pair, std::uint64_t messages) {
  require(pair.traffic_goes_on(messages), "the traffic does not go on: " + pair.traffic_failure());
}

// Nothing to wait for but time.
void let_pass(Pair& pair, Duration time) {
  pair.here().driver().wait_until([](Engine&) { return false; }, clock_now() + time);
}

void require_no_path_down(Pair& pair) {
  for (std::size_t end = 0; end < 2; ++end) {
    for (const Event& event : pair.log(end).copy()) {
      if (event.kind != EventKind::kPathDown) continue;
      throw std::runtime_error(
          fmt::format("end {}: path {} went down ({})", end, to_text(event.path), to_text(event.cause)));
    }
  }
}

void end_well(Pair& pair) {
  require_traffic(pair, 50);
  const std::string failure = pair.stop_traffic();
  require(failure.empty(), failure);
  require_no_path_down(pair);
  const std::string ending = pair.end();
  require(ending.empty(), ending);
}

TEST(NoFalseDownTest, NoPathGoesDownBecauseAPeerComputes) {
  Pair pair({.shape = kShape});
  require_traffic(pair, 50);
  pair.tell(1, {.kind = Command::Kind::kCompute, .time = kPause});
  let_pass(pair, kPause);
  end_well(pair);
}

TEST(NoFalseDownTest, NoPathGoesDownBecauseAPeerIsStopped) {
  Pair pair({.shape = kShape});
  require_traffic(pair, 50);
  require(::kill(pair.child(), SIGSTOP) == 0, "the other process can not be stopped");
  let_pass(pair, kPause);
  require(::kill(pair.child(), SIGCONT) == 0, "the other process can not be continued");
  end_well(pair);
}

TEST(NoFalseDownTest, NoPathGoesDownBecauseItIsSlowedToATenth) {
  Pair pair({.shape = kShape});
  require_traffic(pair, 200);
  for (std::size_t end = 0; end < 2; ++end) {
    const NicId nic{static_cast<std::uint8_t>(1 + end)};
    double rate = 0;
    for (const PathView& path : pair.here().with_session([](Session& session) { return session.paths(); }))
      if (path.nic_here == nic && path.nic_there == nic) rate = path.rate_bytes_s;
    FaultSpec fault;
    fault.kind = FaultKind::kSlow;
    fault.nic = nic;
    fault.rate_bytes_s = static_cast<std::uint64_t>(rate / 10);
    fault.lasting = kPause / 2;
    const std::string refused = pair.inject(end, fault);
    require(refused.empty(), refused);
    fmt::print("NIC {} of end {} moves {:.1f} MB/s instead of {:.1f} MB/s\n", nic.value, end, rate / 1e7, rate / 1e6);
    let_pass(pair, fault.lasting);
  }
  require(pair.settle(5s), "the path is not what it was before it was slow");
  end_well(pair);
}

}  // namespace
}  // namespace r2ccl::loopback
