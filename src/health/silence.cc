#include "health/silence.h"

#include <algorithm>

namespace r2ccl {

Duration Silence::down_after() const {
  return std::max(limits_.down, 2 * suspect_after_);
}

Hearing Silence::on_sample(Instant now, const Progress& progress) {
  suspect_after_ = std::max(limits_.suspect_min, limits_.suspect_srtt_factor * progress.srtt);
  // Everything outstanding at the last sample was acknowledged since: what is unacknowledged now is fresh, and may be
  // much younger than the last acknowledgement when the path was idle in between.
  const bool fresh = quiet_since_ == kNever || progress.acked_bytes >= sent_bytes_;
  const bool advanced = progress.acked_bytes > acked_bytes_;
  const bool restarted = progress.acked_bytes < acked_bytes_;
  const Instant last_sample = last_sample_;
  last_sample_ = now;
  acked_bytes_ = progress.acked_bytes;
  sent_bytes_ = progress.acked_bytes + progress.unacked_bytes;

  if (progress.unacked_bytes == 0) {
    quiet_since_ = kNever;
    hearing_ = Hearing::kFine;
    return hearing_;
  }
  const Instant last_ack = now - std::max(progress.last_ack_age, Duration::zero());
  quiet_since_ = fresh || restarted ? now : std::max(quiet_since_, last_ack);
  if (advanced) quiet_since_ = std::max(quiet_since_, last_sample);

  const Duration quiet = now - quiet_since_;
  if (advanced || quiet < suspect_after_) {
    hearing_ = Hearing::kFine;
  } else if (hearing_ == Hearing::kFine) {
    hearing_ = Hearing::kSuspect;
    suspect_since_ = now;
  } else if (hearing_ == Hearing::kSuspect && quiet >= down_after() && now - suspect_since_ >= suspect_after_) {
    hearing_ = Hearing::kSilent;
  }
  return hearing_;
}

Duration Silence::silent_for(Instant now) const {
  return hearing_ == Hearing::kFine ? Duration::zero() : now - quiet_since_;
}

Instant Silence::next_sample(Instant now) const {
  if (quiet_since_ == kNever) return kNever;
  const Instant soon = now + suspect_after_ / 4;
  switch (hearing_) {
    case Hearing::kFine:
      return std::min(soon, quiet_since_ + suspect_after_);
    case Hearing::kSuspect:
      return std::min(soon, std::max(quiet_since_ + down_after(), suspect_since_ + suspect_after_));
    case Hearing::kSilent:
      return soon;
  }
  return soon;
}

}  // namespace r2ccl
