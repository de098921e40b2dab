#pragma once
// Judges from the figures its link reports whether one path has gone silent. A path is silent when something we sent
// stays unacknowledged for too long. Pure: no clock, no socket, no thread, no log.
//
//   state      what the sample says                                         next
//   kFine      unacked > 0 and no acknowledgement for max(4 SRTT, 25 ms)     kSuspect
//   kSuspect   an acknowledgement came, or nothing is unacked any more       kFine
//   kSuspect   still none for 150 ms                                        kSilent
//   kSilent    an acknowledgement came (before anyone acted on the silence)   kFine
//
// A path whose acknowledged bytes advance is slow, never down. If bytes are queued but none is unacknowledged, the peer
// does not read, and that is no fault of the path. One sample moves at most one row: after a pause of this process, or
// of the whole machine, the first sample can only suspect, and kSilent needs a suspicion that is at least as old as the
// suspect threshold. Use one object per epoch of a path.

#include "base/time.h"
#include "topology/path_state.h"

namespace r2ccl {

struct SilenceLimits {
  Duration suspect_min = 25ms;
  int suspect_srtt_factor = 4;
  Duration down = 150ms;  // never below twice the suspect threshold in force
};

enum class Hearing : std::uint8_t { kFine, kSuspect, kSilent };

class Silence final {
 public:
  explicit Silence(const SilenceLimits& limits) : limits_(limits) {}

  Hearing on_sample(Instant now, const Progress& progress);
  Hearing hearing() const { return hearing_; }
  // How long nothing has been acknowledged although something is unacknowledged; zero when fine.
  Duration silent_for(Instant now) const;
  // When to sample again: as soon as the judgement could get worse, and at least four times per suspect threshold, so
  // that we know well when bytes left and acknowledgements came. kNever when nothing is unacknowledged.
  Instant next_sample(Instant now) const;

 private:
  Duration down_after() const;

  SilenceLimits limits_;
  Hearing hearing_ = Hearing::kFine;
  Instant last_sample_{};
  Instant quiet_since_ = kNever;    // kNever: nothing unacknowledged at the last sample
  Instant suspect_since_ = kNever;  // the sample that made it suspect
  std::uint64_t acked_bytes_ = 0;
  std::uint64_t sent_bytes_ = 0;  // acknowledged or not, at the last sample
  Duration suspect_after_{};
};

}  // namespace r2ccl
