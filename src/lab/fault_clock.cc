#include "lab/fault_clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace r2ccl::lab {

std::string to_text(const LabNicState& state, std::uint64_t healthy_rate_bytes_s) {
  std::string text;
  const auto add = [&text](const std::string& words) { text += (text.empty() ? "" : ", ") + words; };
  if (!state.up) add("down");
  if (!state.cable) add("cable out");
  if (!state.bridged) add("black hole");
  if (state.rate_bytes_s != healthy_rate_bytes_s) add("slow " + rate_text(state.rate_bytes_s));
  return text.empty() ? "ok" : text;
}

FaultClock::FaultClock(const std::vector<FaultSpec>& faults, const LabNicState& base) : base_(base) {
  for (const FaultSpec& fault : faults) {
    entries_.push_back(
        {.spec = fault, .next = fault.at.unit == FaultStart::Unit::kTime ? fault.at.time : Duration::max()});
  }
}

bool FaultClock::waits_for_ranks() const {
  return std::ranges::any_of(entries_,
                             [](const Entry& entry) { return entry.spec.at.unit != FaultStart::Unit::kTime; });
}

void FaultClock::on_reached(std::uint64_t operation, std::uint32_t share_ppm, Duration elapsed) {
  for (Entry& entry : entries_) {
    const FaultStart& at = entry.spec.at;
    const bool there = (at.unit == FaultStart::Unit::kOperation && operation >= at.operation) ||
                       (at.unit == FaultStart::Unit::kBytes && share_ppm >= at.share_ppm);
    if (!there) continue;
    entry.spec.at = {.time = elapsed};  // from now on like one that was told its time
    entry.next = elapsed;
  }
}

Duration FaultClock::end_of(const FaultSpec& spec) {
  return spec.lasting > 0s ? spec.at.time + spec.lasting : Duration::max();
}

// True when it bites or lets go.
bool FaultClock::advance(Entry& entry, Duration elapsed) const {
  const Duration end = end_of(entry.spec);
  const bool over = elapsed >= end;
  if (entry.spec.kind != FaultKind::kFlap) {
    entry.next = over || entry.spec.kind == FaultKind::kReset ? Duration::max() : end;
    // One that was over before anybody looked bites all the same, for one step.
    if (over && !entry.biting) entry.next = elapsed;
    entry.biting = !entry.biting;
    return true;
  }
  const std::int64_t half = (elapsed - entry.spec.at.time) / entry.spec.period;
  entry.next = over ? Duration::max() : std::min(end, entry.spec.at.time + (half + 1) * entry.spec.period);
  const bool bites = !over && half % 2 == 0;
  return std::exchange(entry.biting, bites) != bites || over;
}

// Of a flap only its beginning and its end are worth a word.
std::string FaultClock::words_of(Entry& entry) {
  const bool told = std::exchange(entry.told, true);
  const bool over = entry.next == Duration::max() && !entry.biting;
  if (entry.spec.kind == FaultKind::kFlap && told && !over) return "";
  std::string words = to_text(entry.spec.kind);
  if (entry.spec.kind == FaultKind::kSlow) words += " " + rate_text(entry.spec.rate_bytes_s);
  if (entry.spec.kind == FaultKind::kFlap) words += " every " + duration_text(entry.spec.period);
  return over ? words + " is over" : words;
}

NicChange FaultClock::change_of(Entry& entry) const {
  NicChange change{.server = entry.spec.server, .nic = entry.spec.nic, .state = base_, .reset = false, .why = ""};
  for (const Entry& other : entries_) {
    if (!other.biting || other.spec.server != entry.spec.server || other.spec.nic != entry.spec.nic) continue;
    switch (other.spec.kind) {
      case FaultKind::kDown:
        change.state.up = false;
        break;
      case FaultKind::kCable:
      case FaultKind::kFlap:
        change.state.cable = false;
        break;
      case FaultKind::kBlackhole:
        change.state.bridged = false;
        break;
      case FaultKind::kSlow:
        change.state.rate_bytes_s = std::min(change.state.rate_bytes_s, other.spec.rate_bytes_s);
        break;
      case FaultKind::kReset:
        break;
    }
  }
  change.reset = entry.spec.kind == FaultKind::kReset;
  change.why = words_of(entry);
  return change;
}

std::vector<NicChange> FaultClock::step(Duration elapsed) {
  std::vector<NicChange> changes;
  for (Entry& entry : entries_) {
    if (entry.next <= elapsed && advance(entry, elapsed)) changes.push_back(change_of(entry));
  }
  return changes;
}

Duration FaultClock::next() const {
  Duration earliest = Duration::max();
  for (const Entry& entry : entries_) earliest = std::min(earliest, entry.next);
  return earliest;
}

}  // namespace r2ccl::lab
