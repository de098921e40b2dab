#include "apps/r2ccl/demo/demo_story.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "health/verdict.h"

namespace r2ccl::apps {
namespace {

constexpr Duration kWarmUp = 300ms;     // the first AllReduces open connections
constexpr Duration kCalm = 300ms;       // after a repair or a return, until the new plan is in full use
constexpr Duration kGapWindow = 400ms;  // a gap that begins this soon after a fault, or before its repair, is its

constexpr Duration kShareWindow = 300ms;
constexpr double kNearly = 0.8;

std::string after_text(Duration span) {
  return span < 1us ? "at once" : "after " + duration_text(span);
}

}  // namespace

bool DemoSummary::good() const {
  return rounds > 0 && checked > 0 && wrong == 0 &&
         std::ranges::all_of(faults, [](const FaultStory& fault) { return fault.mended; });
}

bool DemoStory::Chapter::settled() const {
  if (!facts.begun || !unfenced.empty()) return false;
  if (only_slow() && !facts.repaired) return false;
  const bool ends = facts.spec.lasting > Duration::zero() || facts.spec.kind == FaultKind::kReset;
  return !ends || (facts.healed && away.empty() && (!only_slow() || facts.back));
}

DemoStory::DemoStory(const DemoPlan& plan, Instant start, Print print)
    : plan_(plan), start_(start), print_(std::move(print)), series_(plan.servers, plan.nics) {
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
    on_gap(demo_gap(report));
  } else if (report.contains("tick")) {
    series_.add(rank, demo_tick(report));
  } else if (report.contains("round")) {
    on_round(rank, demo_round(report));
  } else if (report.contains("totals")) {
    totals_[rank] = demo_totals(report);
  }
}

void DemoStory::on_begun(std::size_t fault, Instant at) {
  FaultStory& facts = chapters_.at(fault).facts;
  facts.begun = at;
  if (facts.spec.kind == FaultKind::kReset) facts.healed = at;
  print_(at, Colour::kYellow, fmt::format("- {}: {}", nic_text(facts.spec), begin_text(facts.spec)));
}

void DemoStory::on_healed(std::size_t fault, Instant at) {
  FaultStory& facts = chapters_.at(fault).facts;
  facts.healed = at;
  print_(at, Colour::kGreen, fmt::format("+ {}: {}", nic_text(facts.spec), heal_text(facts.spec)));
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
  if (event.kind == EventKind::kFenceReceived && chapter->unfenced.erase(end) > 0)
    facts.repaired = std::max(facts.repaired.value_or(event.at), event.at);
  const bool trusted = event.kind == EventKind::kPathTrusted || (event.kind == EventKind::kPathUp && event.extra == 0);
  if (trusted && chapter->away.erase(end) > 0 && chapter->away.empty()) facts.back = event.at;
  if (event.kind == EventKind::kVerdict && facts.verdict.empty())
    facts.verdict = to_text(static_cast<Blame>(event.extra));
}

void DemoStory::on_fault_event(std::uint32_t rank, const DemoEvent& event) {
  Chapter* chapter = plan_.in_lab ? nullptr : chapter_of(rank, event.number);
  if (chapter == nullptr) return;
  const auto index = static_cast<std::size_t>(chapter - chapters_.data());
  if (event.kind == EventKind::kFaultHealed) {
    on_healed(index, event.at);
  } else {
    on_begun(index, event.at);
  }
}

void DemoStory::on_path_down(Chapter& chapter, const PathEnd& end, const DemoEvent& event) {
  // What goes down again after the repair was on probation and carried nothing; so do paths between rails. A rail's
  // path that goes down late, because nothing was sent over it until then, prolongs the repair.
  const PathEnd path = end.rank < end.peer ? end : PathEnd{end.peer, end.rank, end.there, end.here};
  const bool fresh = end.here == end.there && !chapter.facts.healed && !chapter.paths.contains(path);
  if (!chapter.told_repaired || fresh) {
    chapter.unfenced.insert(end);
    chapter.paths.insert(path);
    chapter.last_down = std::max(chapter.last_down, event.at);
    chapter.told_repaired = false;
  }
  chapter.facts.paths_down = chapter.paths.size();
  const bool first_hand = event.cause != Cause::kTold && event.cause != Cause::kNone;
  if (chapter.facts.cause == Cause::kNone && first_hand) chapter.facts.cause = event.cause;
  if (end.here != end.there) return;
  chapter.away.insert(end);
  chapter.facts.back.reset();
}

void DemoStory::on_gap(const DemoGap& gap) {
  for (Chapter& chapter : chapters_) {
    FaultStory& facts = chapter.facts;
    if (!facts.begun || gap.to < *facts.begun) continue;
    const Instant over = std::max(facts.repaired.value_or(*facts.begun), *facts.begun + kGapWindow);
    if (gap.from < over) facts.longest_gap = std::max(facts.longest_gap, gap.to - std::max(gap.from, *facts.begun));
  }
}

void DemoStory::on_resent(std::uint32_t rank, const DemoResent& resent) {
  Chapter* chapter = latest_before(resent.at);
  if (chapter == nullptr) return;
  chapter->facts.resent_bytes += resent.bytes;
  chapter->facts.resent_over.insert(fmt::format("{}:{}", rank, resent.nic));
}

void DemoStory::on_round(std::uint32_t rank, const DemoRound& round) {
  series_.add(round);
  if (rank != 0 || (round.algorithm == algorithm_ && round.health_version == health_version_)) return;
  const bool first = algorithm_.empty();
  algorithm_ = round.algorithm;
  health_version_ = round.health_version;
  if (round.at >= end_) return;
  print_(round.at, Colour::kBlue, fmt::format("  {} for health map {}", algorithm_, health_version_));
  Chapter* chapter = first ? nullptr : latest_before(round.at);
  if (chapter == nullptr || !chapter->only_slow() || chapter->facts.healed) return;
  FaultStory& facts = chapter->facts;
  facts.noticed = facts.noticed.value_or(round.at);
  facts.repaired = facts.repaired.value_or(round.at);
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
  for (Chapter& chapter : chapters_) {
    if (chapter.only_slow()) watch_slow(chapter, now - kCertain);
    tell(chapter, now);
  }
}

void DemoStory::watch_slow(Chapter& chapter, Instant now) {
  FaultStory& facts = chapter.facts;
  if (!facts.begun || facts.back || now >= end_) return;
  const std::optional<Duration> usual = usual_round();
  for (std::size_t i = 1; i < series_.rounds() && !facts.repaired; ++i) {
    if (series_.round(i - 1).at < *facts.begun || (usual && series_.took(i) >= 2 * *usual)) continue;
    facts.repaired = series_.round(i).at;
    facts.noticed = facts.noticed.value_or(*facts.repaired);
  }
  if (!facts.healed || now < *facts.healed + kShareWindow) return;
  const auto server = static_cast<std::uint32_t>(facts.spec.server.value);
  const std::uint32_t nic = facts.spec.nic.value;
  // Before this fault it may have carried more than its part, while another NIC was away.
  const double before =
      std::min(1.0 / plan_.nics, series_.sent_share(server, nic, std::max(start_, *facts.begun - 1s), *facts.begun));
  if (series_.sent_share(server, nic, now - kShareWindow, now) >= kNearly * before) facts.back = now;
}

void DemoStory::tell(Chapter& chapter, Instant now) {
  const FaultStory& facts = chapter.facts;
  if (!facts.begun) return;
  if (facts.noticed && !chapter.told_noticed && now >= *facts.noticed + kCertain) {
    chapter.told_noticed = true;
    tell_noticed(facts);
  }
  if (facts.repaired && !chapter.told_repaired && chapter.unfenced.empty() && now >= chapter.last_down + kCertain &&
      now >= *facts.repaired + kCertain) {
    chapter.told_repaired = true;
    tell_repaired(chapter);
  }
  if (facts.back && facts.healed && !chapter.told_back && now >= std::max(*facts.back, *facts.healed) + kCertain) {
    chapter.told_back = true;
    const Instant back = std::max(*facts.back, *facts.healed);
    print_(back, Colour::kPlain,
           fmt::format("  {} back in use {} later", nic_text(facts.spec), duration_text(back - *facts.healed)));
  }
}

void DemoStory::tell_noticed(const FaultStory& facts) {
  std::string why = facts.cause == Cause::kNone ? "silence" : to_text(facts.cause);
  if (facts.spec.kind == FaultKind::kSlow && facts.cause == Cause::kNone) why = "its rate";
  print_(*facts.noticed, Colour::kPlain,
         fmt::format("  noticed {}: {}", after_text(*facts.noticed - *facts.begun), why));
}

void DemoStory::tell_repaired(const Chapter& chapter) {
  const FaultStory& facts = chapter.facts;
  std::string what = "the other NICs carry its share";
  if (facts.paths_down > 0) what = fmt::format("{} path{} fenced", facts.paths_down, facts.paths_down == 1 ? "" : "s");
  if (facts.resent_bytes > 0)
    what += fmt::format(", {} sent again over {}", bytes_text(facts.resent_bytes), fmt::join(facts.resent_over, " "));
  print_(*facts.repaired, Colour::kPlain,
         fmt::format("  repaired {}: {}", after_text(*facts.repaired - *facts.begun), what));
}

bool DemoStory::all_over() const {
  return std::ranges::all_of(chapters_, [](const Chapter& chapter) {
    return chapter.settled() && (!chapter.facts.back || chapter.told_back || !chapter.facts.healed);
  });
}

// ---- while it runs ----------------------------------------------------------------------------------------------

NicMark DemoStory::mark(std::uint32_t server, std::uint32_t nic) const {
  NicMark mark = NicMark::kFine;
  for (const Chapter& chapter : chapters_) {
    const FaultStory& facts = chapter.facts;
    if (facts.spec.server.value != server || facts.spec.nic.value != nic || !facts.begun) continue;
    if (!facts.healed) {
      mark = NicMark::kBroken;
    } else if (!chapter.away.empty()) {
      mark = NicMark::kReturning;
    }
  }
  return mark;
}

std::optional<Duration> DemoStory::usual_round() const {
  Instant first = end_;
  for (const Chapter& chapter : chapters_) first = std::min(first, chapter.facts.begun.value_or(kNever));
  const std::optional<Duration> warm = series_.median_round(start_ + kWarmUp, first);
  return warm ? warm : series_.median_round(start_, first);
}

Duration DemoStory::longest_gap() const {
  Duration longest{};
  for (const Chapter& chapter : chapters_) longest = std::max(longest, chapter.facts.longest_gap);
  return longest;
}

// ---- the end ----------------------------------------------------------------------------------------------------

DemoSummary DemoStory::summary() const {
  DemoSummary summary;
  summary.length = end_ - start_;
  for (std::size_t i = 0; i < chapters_.size(); ++i) {
    summary.faults.push_back(chapters_[i].facts);
    summary.faults.back().mended = chapters_[i].settled();
    measure(i, summary.faults.back());
  }
  for (const auto& [rank, totals] : totals_) {
    summary.checked += totals.checked;
    summary.wrong += totals.wrong;
  }
  summary.rounds = series_.rounds();
  summary.bytes = summary.rounds * plan_.bytes;
  return summary;
}

void DemoStory::measure(std::size_t index, FaultStory& story) const {
  if (!story.begun) return;
  const Instant begun = *story.begun;
  const Instant healed = std::min(story.healed && *story.healed > begun ? *story.healed : end_, end_);
  Instant before = start_ + kWarmUp;  // the calm that ended with this fault began here
  Instant after = end_;               // and that which follows it ends here
  for (std::size_t i = 0; i < chapters_.size(); ++i) {
    const FaultStory& other = chapters_[i].facts;
    if (i == index || !other.begun) continue;
    if (*other.begun > begun) {
      after = std::min(after, *other.begun);
    } else {
      before = std::max(before, other.back.value_or(other.healed.value_or(begun)) + kCalm);
    }
  }
  const Instant repaired = std::min(story.repaired.value_or(begun), healed);
  const Instant back = std::max(story.back.value_or(healed), healed);
  const auto server = static_cast<std::uint32_t>(story.spec.server.value);
  story.lost = series_.lost(begun, repaired, usual_round().value_or(Duration::max()));
  story.round_before = series_.median_round(before, begun);
  story.round_during = series_.median_round(repaired + kCalm, healed);
  story.round_after = series_.median_round(back + kCalm, after);
  story.share_before = series_.sent_share(server, story.spec.nic.value, before, begun);
  story.share_during = series_.sent_share(server, story.spec.nic.value, begun + (healed - begun) / 2, healed);
}

}  // namespace r2ccl::apps
