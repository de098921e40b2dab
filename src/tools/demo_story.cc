#include "tools/demo_story.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/units.h"
#include "health/verdict.h"

namespace r2ccl::tools {
namespace {

constexpr Duration kRateWindow = 400ms;

std::string nic_text(const FaultSpec& spec) {
  return fmt::format("server {} NIC {}", spec.server.value, spec.nic.value);
}

std::string after_text(Duration span) {
  return span < 1us ? "at once" : "after " + duration_text(span);
}

// A figure at a moment between two ticks.
template <class Figure>
double at_time(const std::vector<DemoTick>& ticks, Instant at, const Figure& figure) {
  const auto after = std::ranges::lower_bound(ticks, at, {}, &DemoTick::at);
  if (after == ticks.end()) return ticks.empty() ? 0 : figure(ticks.back());
  if (after == ticks.begin()) return figure(*after);
  const DemoTick& before = *std::prev(after);
  const double part = to_seconds(at - before.at) / to_seconds(after->at - before.at);
  return figure(before) + part * (figure(*after) - figure(before));
}

}  // namespace

DemoStory::DemoStory(const DemoPlan& plan, Instant start, Print print)
    : plan_(plan), start_(start), print_(std::move(print)) {
  for (const FaultSpec& spec : plan_.faults) {
    chapters_.emplace_back();
    chapters_.back().facts.spec = spec;
  }
}

// ---- reports ----------------------------------------------------------------------------------------------------

void DemoStory::on_report(std::uint32_t rank, const Json& report) {
  if (report.contains("event")) {
    on_event(rank, demo_event(report));
  } else if (report.contains("resent")) {
    on_resent(rank, demo_resent(report));
  } else if (report.contains("gap")) {
    on_gap(rank, demo_gap(report));
  } else if (report.contains("tick")) {
    ticks_[rank].push_back(demo_tick(report));
  } else if (report.contains("totals")) {
    totals_[rank] = demo_totals(report);
  }
}

void DemoStory::on_event(std::uint32_t rank, const DemoEvent& event) {
  if (event.at >= end_) return;
  if (event.kind == EventKind::kFaultInjected || event.kind == EventKind::kFaultHealed)
    return on_fault_event(rank, event);
  const PathEnd end{rank, event.peer, event.here, event.there};
  Chapter* chapter = chapter_about(end, event.at);
  if (chapter == nullptr) return;
  FaultStory& facts = chapter->facts;
  if (event.kind == EventKind::kPathSuspect || event.kind == EventKind::kPathDown)
    facts.noticed = std::min(facts.noticed.value_or(kNever), event.at);
  if (event.kind == EventKind::kPathDown) on_path_down(*chapter, end, event);
  if (event.kind == EventKind::kFenceReceived && chapter->unfenced.erase(end) > 0 && !chapter->told_repaired)
    facts.repaired = std::max(facts.repaired.value_or(event.at), event.at);
  const bool trusted = event.kind == EventKind::kPathTrusted || (event.kind == EventKind::kPathUp && event.extra == 0);
  if (trusted && chapter->away.erase(end) > 0 && chapter->away.empty()) facts.back = event.at;
  if (event.kind == EventKind::kVerdict && facts.verdict.empty())
    facts.verdict = to_text(static_cast<Blame>(event.extra));
}

void DemoStory::on_fault_event(std::uint32_t rank, const DemoEvent& event) {
  Chapter* chapter = chapter_of(rank, event.number);
  if (chapter == nullptr) return;
  FaultStory& facts = chapter->facts;
  if (event.kind == EventKind::kFaultHealed) {
    facts.healed = event.at;
    print_(event.at, Colour::kGreen, fmt::format("+ {}: {}", nic_text(facts.spec), heal_text(facts.spec)));
    if (facts.spec.kind == FaultKind::kSlow) tell_slow(*chapter);
    return;
  }
  facts.begun = event.at;
  if (facts.spec.kind == FaultKind::kReset) facts.healed = event.at;
  print_(event.at, Colour::kYellow, fmt::format("- {}: {}", nic_text(facts.spec), begin_text(facts.spec)));
}

void DemoStory::on_path_down(Chapter& chapter, const PathEnd& end, const DemoEvent& event) {
  // What comes after the repair happens to paths on probation, which carry nothing.
  if (!chapter.told_repaired) {
    chapter.unfenced.insert(end);
    chapter.paths.insert(end.rank < end.peer ? end : PathEnd{end.peer, end.rank, end.there, end.here});
    chapter.last_down = std::max(chapter.last_down, event.at);
  }
  chapter.facts.paths_down = chapter.paths.size();
  const bool first_hand = event.cause != Cause::kTold && event.cause != Cause::kNone;
  if (chapter.facts.cause == Cause::kNone && first_hand) chapter.facts.cause = event.cause;
  if (end.here != end.there) return;
  chapter.away.insert(end);
  chapter.facts.back.reset();
}

void DemoStory::on_gap(std::uint32_t rank, const DemoGap& gap) {
  for (Chapter& chapter : chapters_) {
    FaultStory& facts = chapter.facts;
    const bool concerned = facts.spec.server.value == rank || facts.spec.server.value == gap.peer;
    if (!concerned || !facts.begun || gap.to < *facts.begun) continue;
    const Instant over = std::max(facts.repaired.value_or(*facts.begun), *facts.begun + kRateWindow);
    if (gap.from < over) facts.longest_gap = std::max(facts.longest_gap, gap.to - std::max(gap.from, *facts.begun));
  }
}

void DemoStory::on_resent(std::uint32_t rank, const DemoResent& resent) {
  Chapter* chapter = latest_before(resent.at);
  if (chapter == nullptr) return;
  chapter->facts.resent_bytes += resent.bytes;
  chapter->facts.resent_over.insert(fmt::format("{}:{}", rank, resent.nic));
}

// Faults are numbered in each server from 1; those that only give the NICs their speed come first.
DemoStory::Chapter* DemoStory::chapter_of(std::uint32_t server, std::uint64_t number) {
  std::uint64_t counted = plan_.nics;
  for (Chapter& chapter : chapters_) {
    if (chapter.facts.spec.server.value == server && ++counted == number) return &chapter;
  }
  return nullptr;
}

DemoStory::Chapter* DemoStory::chapter_about(const PathEnd& end, Instant at) {
  Chapter* found = nullptr;
  for (Chapter& chapter : chapters_) {
    const FaultSpec& spec = chapter.facts.spec;
    const bool here = spec.server.value == end.rank && spec.nic.value == end.here;
    const bool there = spec.server.value == end.peer && spec.nic.value == end.there;
    if ((here || there) && chapter.facts.begun && *chapter.facts.begun <= at) found = &chapter;
  }
  return found;
}

DemoStory::Chapter* DemoStory::latest_before(Instant at) {
  Chapter* found = nullptr;
  for (Chapter& chapter : chapters_) {
    if (!chapter.facts.begun || *chapter.facts.begun > at) continue;
    if (found == nullptr || *chapter.facts.begun > *found->facts.begun) found = &chapter;
  }
  return found;
}

// ---- telling ----------------------------------------------------------------------------------------------------

void DemoStory::settle(Instant now) {
  for (Chapter& chapter : chapters_) tell(chapter, now);
}

void DemoStory::tell(Chapter& chapter, Instant now) {
  const FaultStory& facts = chapter.facts;
  if (!facts.begun) return;
  if (facts.noticed && !chapter.told_noticed && now >= *facts.noticed + kCertain) {
    chapter.told_noticed = true;
    const std::string why = facts.cause == Cause::kNone ? "silence" : to_text(facts.cause);
    print_(*facts.noticed, Colour::kPlain,
           fmt::format("  noticed {}: {}", after_text(*facts.noticed - *facts.begun), why));
  }
  if (facts.repaired && !chapter.told_repaired && chapter.unfenced.empty() && now >= chapter.last_down + kCertain &&
      now >= *facts.repaired + kCertain) {
    chapter.told_repaired = true;
    std::string what = fmt::format("  repaired {}: {} path{} fenced", after_text(*facts.repaired - *facts.begun),
                                   facts.paths_down, facts.paths_down == 1 ? "" : "s");
    if (facts.resent_bytes > 0)
      what += fmt::format(", {} sent again over {}", bytes_text(facts.resent_bytes), fmt::join(facts.resent_over, " "));
    print_(*facts.repaired, Colour::kPlain, what);
  }
  if (facts.back && facts.healed && !chapter.told_back && now >= std::max(*facts.back, *facts.healed) + kCertain) {
    chapter.told_back = true;
    const Instant back = std::max(*facts.back, *facts.healed);
    print_(
        back, Colour::kPlain,
        fmt::format("  {} carries traffic again, {} later", nic_text(facts.spec), duration_text(back - *facts.healed)));
  }
}

void DemoStory::tell_slow(const Chapter& chapter) {
  const FaultStory& facts = chapter.facts;
  if (!facts.begun || !facts.healed) return;
  const Instant middle = *facts.begun + (*facts.healed - *facts.begun) / 2;
  print_(*facts.healed, Colour::kPlain,
         fmt::format("  its share of what server {} sends fell from {:.0f} % to {:.0f} %; {} path was given up",
                     facts.spec.server.value, 100 * share(facts.spec, *facts.begun - kRateWindow, *facts.begun),
                     100 * share(facts.spec, middle, *facts.healed), chapter.paths.empty() ? "no" : "a"));
}

bool DemoStory::all_over() const {
  return std::ranges::all_of(chapters_, [](const Chapter& chapter) {
    const FaultStory& facts = chapter.facts;
    if (!facts.begun) return false;
    if (facts.spec.lasting == Duration::zero() && facts.spec.kind != FaultKind::kReset) return true;
    return facts.healed && chapter.away.empty() && (!facts.back || chapter.told_back);
  });
}

// ---- the end ----------------------------------------------------------------------------------------------------

DemoSummary DemoStory::summary() const {
  DemoSummary summary;
  summary.length = end_ - start_;
  for (std::size_t i = 0; i < chapters_.size(); ++i) {
    summary.faults.push_back(chapters_[i].facts);
    measure(i, summary.faults.back());
  }
  for (const auto& [rank, totals] : totals_) {
    summary.bytes += totals.checked_bytes;
    summary.wrong_bytes += totals.wrong_bytes;
    for (std::uint32_t peer = 0; peer < plan_.servers; ++peer) {
      summary.messages += totals.received_messages.at(peer);
      const auto other = totals_.find(peer);
      const std::uint64_t sent = other == totals_.end() ? 0 : other->second.sent_messages.at(rank);
      const std::uint64_t received = totals.received_messages.at(peer);
      summary.lost_messages += sent > received ? sent - received : received - sent;
    }
  }
  return summary;
}

void DemoStory::measure(std::size_t index, FaultStory& story) const {
  if (!story.begun) return;
  const Instant begun = *story.begun;
  const Instant healed = story.healed && *story.healed > begun ? *story.healed : std::min(begun + kRateWindow, end_);
  Instant next = end_;
  for (std::size_t i = 0; i < chapters_.size(); ++i) {
    const std::optional<Instant>& other = chapters_[i].facts.begun;
    if (i != index && other && *other > begun) next = std::min(next, *other);
  }
  const Instant back = std::max(story.back.value_or(healed), healed);
  story.before_bytes_s = rate(std::max(start_, begun - kRateWindow), begun);
  story.during_bytes_s = rate(begun, healed);
  story.after_bytes_s = rate(back, std::max(next, std::min(back + kRateWindow, end_)));
  story.share_before = share(story.spec, std::max(start_, begun - kRateWindow), begun);
  story.share_during = share(story.spec, begun + (healed - begun) / 2, healed);
}

double DemoStory::rate(Instant from, Instant to) const {
  if (to <= from) return 0;
  const auto received = [](const DemoTick& tick) { return static_cast<double>(tick.received_bytes); };
  double bytes = 0;
  for (const auto& [rank, ticks] : ticks_) bytes += at_time(ticks, to, received) - at_time(ticks, from, received);
  return bytes / to_seconds(to - from);
}

double DemoStory::share(const FaultSpec& spec, Instant from, Instant to) const {
  const auto found = ticks_.find(static_cast<std::uint32_t>(spec.server.value));
  if (found == ticks_.end()) return 0;
  double all = 0;
  double mine = 0;
  for (std::uint32_t nic = 0; nic < plan_.nics; ++nic) {
    const auto sent = [nic](const DemoTick& tick) { return static_cast<double>(tick.sent_bytes.at(nic)); };
    const double bytes = at_time(found->second, to, sent) - at_time(found->second, from, sent);
    all += bytes;
    if (nic == spec.nic.value) mine = bytes;
  }
  return all > 0 ? mine / all : 0;
}

}  // namespace r2ccl::tools
