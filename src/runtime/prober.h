#pragma once
// Tries connections to find out which NIC still reaches which: a probe connects and shakes hands (Purpose::kProbe) and
// does nothing else.
//
// Limits     kRunningMax probes run at once and kQueuedMax more wait their turn; beyond that start() says no. Each
//            lasts at most the time-out, counted from when it begins.
// Threads    Part of a judge, whose driver calls it.

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/time.h"
#include "health/verdict.h"
#include "transport/link.h"

namespace r2ccl {

// For links on which no frame means anything: probes.
struct IgnoreFrames final : FrameSink {
  Landing on_header(Link&, const FrameHeader&, ByteView) override { return {}; }
  void on_frame(Link&, const FrameHeader&, ByteView, Payload) override {}
};

class Prober final {
 public:
  static constexpr std::size_t kRunningMax = 8;
  static constexpr std::size_t kQueuedMax = 64;

  struct Answer {
    std::uint64_t token = 0;
    ProbeResult result = ProbeResult::kUnasked;
    bool refused = false;  // the way works (result is kOk), but nobody listens there any more
  };

  Prober(Provider& provider, Duration timeout) : provider_(provider), timeout_(timeout) {}

  // `token` comes back with the answer.
  bool start(std::uint64_t token, NicId from, const Address& to, const Hello& hello);
  Turn step(Instant now);
  std::vector<Answer> take_answers();

 private:
  struct Probe {
    std::uint64_t token;
    NicId from;
    Address to;
    Hello hello;
    std::unique_ptr<Link> link{};
    Instant begun{};
  };
  // True: the answer is there.
  bool begin(Probe& probe, Instant now);
  bool advance(Probe& probe, Instant now, Turn& turn);
  bool answer(const Probe& probe, ProbeResult result, bool refused = false);

  Provider& provider_;
  const Duration timeout_;
  std::deque<Probe> queued_;
  std::vector<Probe> running_;
  std::vector<Answer> answers_;
};

}  // namespace r2ccl
