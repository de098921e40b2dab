#include "health/comeback.h"

#include <algorithm>

namespace r2ccl {

void Comeback::on_down(Instant now) {
  switch (state_) {
    case State::kNew:
      next_attempt_ = now;
      break;
    case State::kClosed:
      on_attempt_failed(now);
      break;
    case State::kOpen:
    case State::kTrusted:
      fall(now);
      wait_from(now, limits_.retry_min);
      break;
  }
  state_ = State::kClosed;
}

void Comeback::fall(Instant now) {
  if (probation_ == Duration::zero()) {
    probation_ = limits_.probation_min;
    return;
  }
  const Duration good = state_ == State::kTrusted ? now - trusted_since_ : Duration::zero();
  if (good < limits_.good_time) {
    probation_ = std::min(2 * probation_, limits_.probation_max);
    ++relapses_;
    return;
  }
  for (Duration left = good; left >= limits_.good_time && probation_ > limits_.probation_min;
       left -= limits_.good_time) {
    probation_ = std::max(probation_ / 2, limits_.probation_min);
  }
}

void Comeback::wait_from(Instant now, Duration retry) {
  retry_ = retry;
  next_attempt_ = now + retry;
}

void Comeback::on_attempt_failed(Instant now) {
  wait_from(now, std::clamp(2 * retry_, limits_.retry_min, limits_.retry_max));
}

void Comeback::on_hint(Instant now) {
  // An attempt that is due or under way is left alone. If it fails, the next one follows after the shortest wait.
  const bool waiting = next_attempt_ > now;
  retry_ = waiting ? limits_.retry_min : Duration::zero();
  next_attempt_ = std::min(next_attempt_, now + limits_.retry_min);
}

Instant Comeback::on_open(Instant now) {
  if (probation_ == Duration::zero()) {
    on_trusted(now);
    return now;
  }
  state_ = State::kOpen;
  return now + probation_;
}

void Comeback::on_trusted(Instant now) {
  if (state_ == State::kTrusted) return;
  state_ = State::kTrusted;
  trusted_since_ = now;
}

}  // namespace r2ccl
