// Captures of a running transfer's own connections, handshake and frames, played again to the same listeners: they
// prove nothing, because every challenge is new. Both ends live in this process, so that the test can listen in.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "env/real/real.h"
#include "runtime/threads/driver.h"
#include "tests/loopback/support/guest.h"
#include "tests/loopback/support/peer.h"
#include "tests/loopback/support/shared.h"
#include "tests/loopback/support/tap.h"
#include "tests/loopback/support/traffic.h"
#include "transport/stream/handshake.h"
#include "transport/stream/stream_provider.h"
#include "transport/tcp/tcp_dialer.h"

namespace r2ccl::loopback {
namespace {

constexpr std::size_t kConnector = 1;  // has the lower id, and is not the root: makes every connection there is

// One end from its parts, with a tap on its connections.
class TappedEnd final {
 public:
  explicit TappedEnd(std::size_t end)
      : tcp_(open(end)),
        tap_(*tcp_),
        provider_(tap_, keyring_, random_, {end == kConnector ? 0x1001u : 0x2002u}, StreamLimits{}),
        engine_(Env{clock_, random_, log_}, provider_, keyring_, telemetry_, {end == kConnector ? 0x1001u : 0x2002u},
                config(end)),
        driver_(engine_, clock_, *tcp_, DriverConfig{}) {
    if (const Status listening = engine_.listen(); !listening) throw std::runtime_error(listening.error().what);
  }
  UniqueId host() { return engine_.host(2).value(); }
  void join(const UniqueId& id) {
    engine_.join(id);
    driver_.start();
  }
  void meet(const Secret& secret) {
    if (!driver_.wait_until([](Engine& engine) { return engine.ready(); }, clock_now() + 10s))
      throw std::runtime_error("the rendezvous did not come together");
    driver_.with_engine([&](Engine& engine) {
      for (const ProcessInfo& process : engine.roster())
        if (process.process != engine.self().process) other = process.process;
      engine.session(other).join(kGroup, secret);
    });
  }
  Driver& driver() { return driver_; }
  StreamCounters counters() {
    StreamCounters counters;
    driver_.with_engine([&](Engine&) { counters = provider_.counters(); });
    return counters;
  }
  std::vector<Recording> recordings() {
    std::vector<Recording> copies;
    driver_.with_engine([&](Engine&) {
      for (const auto& recording : tap_.recordings) copies.push_back(*recording);
    });
    return copies;
  }
  Counters session_counters() {
    Counters counters;
    driver_.with_engine([&](Engine&) { counters = telemetry_.counters; });
    return counters;
  }

  ProcessId other;

 private:
  static std::unique_ptr<TcpDialer> open(std::size_t end) {
    std::vector<Nic> nics(kNics);
    for (std::size_t number = 0; number < kNics; ++number) {
      nics[number].id = NicId{static_cast<std::uint8_t>(number)};
      nics[number].address =
          Address::v4(127, 0, static_cast<std::uint8_t>(22 + end), static_cast<std::uint8_t>(1 + number));
      nics[number].name = to_text(nics[number].address);
    }
    auto tcp = TcpDialer::open(nics, TcpConfig{});
    if (!tcp) throw std::runtime_error(tcp.error().what);
    return std::move(*tcp);
  }
  static EngineConfig config(std::size_t end) {
    EngineConfig config;
    config.server = ServerId{end};
    config.rank = static_cast<std::uint32_t>(end);
    config.host = fmt::format("end{}", end);
    return config;
  }

  SteadyClock clock_;
  SodiumRandom random_;
  StderrLog log_{LogLevel::kError, ""};
  Telemetry telemetry_;
  Keyring keyring_;
  std::unique_ptr<TcpDialer> tcp_;
  TapDialer tap_;
  StreamProvider provider_;
  Engine engine_;
  Driver driver_;
};

// Plays a capture to where it was sent, at once or waiting for each answer as the original did. True if the other
// end then closes.
bool play(const Recording& recording, bool politely) {
  Guest guest = Guest::enter(recording.to);
  if (!guest.in()) return false;
  ByteView rest(recording.bytes);
  if (politely) {
    guest.say(rest.first(kHelloBytes));
    guest.hear(kChallengeBytes);
    rest = rest.subspan(kHelloBytes);
  }
  guest.say(rest);  // fails half way when the other end closes, as it should
  return guest.hear_end();
}

TEST(ReplayTest, CapturedConnectionsPlayedAgainProveNothing) {
  Shared<TrafficBoard> board;
  std::array<TappedEnd, 2> ends{TappedEnd(0), TappedEnd(1)};
  const UniqueId id = ends[0].host();
  for (TappedEnd& end : ends) end.join(id);
  Secret group_secret{};
  for (TappedEnd& end : ends) end.meet(group_secret);
  const TrafficShape shape{.streams = 2, .window = 3, .sizes = {8, 50'000, 300'000}};
  Traffic first(ends[0].driver(), ends[0].other, kGroup, 0, shape, *board);
  Traffic second(ends[1].driver(), ends[1].other, kGroup, 1, shape, *board);
  first.start();
  second.start();
  const auto wait_for_messages = [&](std::uint64_t more) {
    const std::uint64_t goal = board->ends[0].messages_checked + more;
    const auto reached = [&](Engine&) { return board->ends[0].messages_checked >= goal; };
    return ends[0].driver().wait_until(reached, clock_now() + 20s);
  };
  EXPECT_TRUE(wait_for_messages(200)) << board->ends[0].failure.data();

  const std::vector<Recording> recordings = ends[kConnector].recordings();
  const auto with_frames = static_cast<std::size_t>(std::ranges::count_if(
      recordings, [](const Recording& recording) { return recording.bytes.size() > kHelloBytes + kProofBytes; }));
  EXPECT_GE(with_frames, kNics + 1) << "a connection per rail and one for control; attempts may come on top";
  const StreamCounters before = ends[0].counters();
  std::size_t plays = 0;
  for (const Recording& recording : recordings) {
    for (const bool politely : {true, false, true, false}) {
      EXPECT_TRUE(play(recording, politely)) << "a replayed connection to " << to_text(recording.to) << " stays open";
      ++plays;
    }
  }
  const StreamCounters after = ends[0].counters();
  fmt::print("{} captures played {} times: {} unproven, {} proven\n", recordings.size(), plays,
             after.unproven - before.unproven, after.proven - before.proven);
  EXPECT_EQ(after.proven, before.proven);
  EXPECT_EQ(after.unproven, before.unproven + plays);

  EXPECT_TRUE(wait_for_messages(50));
  board->stop.raise_to(1);
  first.join();
  second.join();
  for (std::size_t end = 0; end < 2; ++end) {
    EXPECT_EQ(board->ends[end].failed.value(), 0u) << board->ends[end].failure.data();
    EXPECT_EQ(ends[end].session_counters().paths_down, 0u);
    ends[end].driver().with_engine([&](Engine& engine) { engine.session(ends[end].other).abort(kGroup); });
  }
}

}  // namespace
}  // namespace r2ccl::loopback
