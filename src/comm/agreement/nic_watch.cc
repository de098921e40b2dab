#include "comm/agreement/nic_watch.h"

#include <algorithm>
#include <cmath>

namespace r2ccl {
namespace {

bool carries(const PathView& path) {
  return path.state == PathState::kUp || path.state == PathState::kSuspect;
}
// A path that was open once and carries nothing now.
bool lost(const PathView& path) {
  return !carries(path) && path.epoch.value > 0;
}

}  // namespace

std::span<const Permille> NicWatch::look(std::span<const std::vector<PathView>> sessions,
                                         const std::set<NicId>& without_carrier, Instant now) {
  state_.resize(nics_);
  seen_.assign(nics_, kUnseen);
  std::vector<double> ratio(nics_, -1);
  std::vector<bool> tried(nics_, false);
  for (const auto& paths : sessions) {
    double best = 0;
    for (const PathView& path : paths) {
      if (carries(path) && path.measured_at) best = std::max(best, path.rate_bytes_s);
    }
    for (const PathView& path : paths) {
      if (path.nic_here.value >= nics_ || (path.there_dark && !carries(path))) continue;
      Permille& nic = seen_[path.nic_here.value];
      tried[path.nic_here.value] = true;
      if (carries(path)) nic = kWhole;
      if (lost(path) && nic == kUnseen) nic = 0;
      if (carries(path) && path.measured_at && now < *path.measured_at + kFresh)
        ratio[path.nic_here.value] = std::max(ratio[path.nic_here.value], path.rate_bytes_s / best);
    }
  }
  for (const NicId nic : without_carrier) {
    if (nic.value < nics_) seen_[nic.value] = 0;
  }
  const bool some_up = std::ranges::find(seen_, kWhole) != seen_.end();
  for (std::uint32_t i = 0; i < nics_; ++i) {
    if (seen_[i] == kUnseen && tried[i]) {
      if (never_opens(state_[i], some_up, now)) seen_[i] = 0;
      continue;
    }
    if (seen_[i] != kWhole) {
      state_[i] = {};
      continue;
    }
    state_[i].unopened = kNever;
    if (ratio[i] >= 0) judge_rate(state_[i], ratio[i], now);
    if (state_[i].slow) seen_[i] = state_[i].rate;
  }
  return seen_;
}

bool NicWatch::never_opens(Nic& nic, bool others_up, Instant now) {
  if (!others_up) nic.unopened = kNever;
  if (others_up && nic.unopened == kNever) nic.unopened = now;
  return others_up && now >= nic.unopened + kOpenTime;
}

void NicWatch::judge_rate(Nic& nic, double ratio, Instant now) {
  const auto rounded = static_cast<Permille>(std::max(1.0, std::round(ratio * kWhole / kStep)) * kStep);
  // A NIC that seems slow goes on seeming so when it is not quite so for a moment, because rates are estimates.
  const bool seems_slow = ratio < (nic.changing == kNever ? kSlow : kWell);
  const bool news = nic.slow ? ratio > kWell || rounded != nic.rate : seems_slow;
  if (!news) {
    nic.changing = kNever;
    return;
  }
  if (nic.changing == kNever) nic.changing = now;
  if (now < nic.changing + (!nic.slow && ratio < kVerySlow ? kVerySlowTime : kSlowTime)) return;
  if (!nic.slow && ratio >= kSlow) return;
  nic.slow = ratio <= kWell;
  nic.rate = rounded;
  nic.changing = kNever;
}

}  // namespace r2ccl
