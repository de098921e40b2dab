#include "runtime/prober.h"

#include <utility>

namespace r2ccl {

bool Prober::start(std::uint64_t token, NicId from, const Address& to, const Hello& hello) {
  if (queued_.size() >= kQueuedMax) return false;
  queued_.push_back({token, from, to, hello});
  return true;
}

Turn Prober::step(Instant now) {
  Turn turn;
  while (!queued_.empty() && running_.size() < kRunningMax) {
    Probe probe = std::move(queued_.front());
    queued_.pop_front();
    turn.moved = true;
    if (!begin(probe, now)) running_.push_back(std::move(probe));
  }
  const auto over = [&](Probe& probe) { return advance(probe, now, turn); };
  turn.moved |= std::erase_if(running_, over) > 0;
  return turn;
}

bool Prober::begin(Probe& probe, Instant now) {
  auto link = provider_.connect(probe.from, probe.to, probe.hello, now);
  if (!link)
    return answer(probe, link.error().fault == Fault::kBusy ? ProbeResult::kUnasked : ProbeResult::kLocalError);
  probe.link = std::move(*link);
  probe.begun = now;
  return false;
}

bool Prober::advance(Probe& probe, Instant now, Turn& turn) {
  IgnoreFrames ignore;
  turn.moved |= probe.link->step(now, ignore);
  if (probe.link->state() == LinkState::kUp) {
    probe.link->close();
    return answer(probe, ProbeResult::kOk);
  }
  if (probe.link->state() == LinkState::kDown) {
    const Cause cause = probe.link->cause();
    if (cause == Cause::kRefused) return answer(probe, ProbeResult::kOk, true);
    const bool local = cause == Cause::kLocal || cause == Cause::kCarrier;
    return answer(probe, local ? ProbeResult::kLocalError : ProbeResult::kTimeout);
  }
  if (now >= probe.begun + timeout_) return answer(probe, ProbeResult::kTimeout);
  turn.merge({false, probe.begun + timeout_});
  return false;
}

bool Prober::answer(const Probe& probe, ProbeResult result, bool refused) {
  answers_.push_back({probe.token, result, refused});
  return true;
}

std::vector<Prober::Answer> Prober::take_answers() {
  return std::exchange(answers_, {});
}

}  // namespace r2ccl
