#include "sim/net/referee.h"

#include <fmt/format.h>

#include <algorithm>

namespace r2ccl::sim {

void Referee::violation(std::string sentence) {
  if (violations_.size() < kViolationsMax) violations_.push_back(std::move(sentence));
}

bool Referee::peer_down(std::size_t process, std::size_t peer) const {
  return ends_[process * scenario_.processes + peer].peer_down;
}

bool Referee::was_up(std::size_t process, std::size_t peer, NicId nic, bool low) const {
  return std::ranges::any_of(ends_[process * scenario_.processes + peer].opened,
                             [&](const PathEpoch& one) { return (low ? one.path.low : one.path.high) == nic; });
}

// When that end fenced the copy's path, if it did: a fence of a later epoch covers earlier ones.
const std::uint64_t* Referee::fence_clock(const End& end, const PathEpoch& copy) {
  const auto found = end.fenced.lower_bound(copy);
  return found == end.fenced.end() || found->first.path != copy.path ? nullptr : &found->second;
}

void Referee::on_event(std::size_t process, std::size_t peer, const Event& event) {
  ++clock_;
  End& here = end(process, peer);
  End& there = end(peer, process);
  const std::string who = fmt::format("process {} towards {}", process, peer);
  switch (event.kind) {
    case EventKind::kChunkSent:
    case EventKind::kChunkHedged:
    case EventKind::kChunkReplayed:
    case EventKind::kChunkResent:
      return on_copy(who, here, there, event);
    case EventKind::kChunkPlaced:
      return on_placed(who, here, there, event);
    case EventKind::kCopyCorrupt:
    case EventKind::kCopyOvertaken:
      return on_copy_failed(who, there, event);
    case EventKind::kMessageDelivered:
      // Communicators have the same streams, and events do not name the group.
      if (scenario_.collectives && scenario_.collectives->communicators.size() > 1) return;
      if (!here.delivered.emplace(event.extra, event.number).second)
        violation(fmt::format("{}: message {} of stream {} was delivered twice", who, event.number, event.extra));
      return;
    case EventKind::kPathUp:
      here.opened.insert({event.path, event.epoch});
      if (fence_clock(here, {event.path, event.epoch}) != nullptr) {
        violation(fmt::format("{}: path {} opened with epoch {}, which this end had already declared dead", who,
                              r2ccl::to_text(event.path), event.epoch.value));
      }
      return;
    case EventKind::kPathDown:
      if (leaving_[process] || leaving_[peer]) return;
      if (scenario_.calm && !(scenario_.drains() && (event.cause == Cause::kDrained || event.cause == Cause::kTold))) {
        violation(fmt::format("{}: path {} went down ({}) although nothing was wrong", who, r2ccl::to_text(event.path),
                              r2ccl::to_text(event.cause)));
      }
      if (scenario_.never_silent && event.cause == Cause::kSilent) {
        violation(
            fmt::format("{}: path {} was judged silent although it was only slow", who, r2ccl::to_text(event.path)));
      }
      return;
    case EventKind::kFenceSent:
      if (here.fenced.emplace(PathEpoch{event.path, event.epoch}, clock_).second) ++fences_;
      return;
    case EventKind::kPeerDown:
      here.peer_down = true;
      if (!scenario_.plan.lethal() && !leaving_[process] && !leaving_[peer])
        violation(fmt::format("{}: peer down although every fault heals", who));
      return;
    default:
      return;
  }
}

void Referee::on_copy(const std::string& who, End& here, End& there, const Event& event) {
  const PathEpoch copy{event.path, event.epoch};
  Chunk& chunk = here.out[event.number];
  if (event.kind == EventKind::kChunkSent && !chunk.copies.empty())
    violation(fmt::format("{}: chunk {} was sent for the first time twice", who, event.number));
  if (here.fenced.contains(copy)) {
    violation(fmt::format("{}: chunk {} went out on path {} epoch {} after that end had fenced it", who, event.number,
                          r2ccl::to_text(event.path), event.epoch.value));
  }
  if (event.kind == EventKind::kChunkReplayed && scenario_.calm)
    violation(fmt::format("{}: chunk {} was replayed although nothing was wrong", who, event.number));
  if (event.kind == EventKind::kChunkReplayed) check_replay(who, chunk, there, event);
  chunk.copies.push_back({copy});
}

void Referee::on_copy_failed(const std::string& who, End& there, const Event& event) {
  std::vector<SentCopy>& copies = there.out[event.number].copies;
  if (event.extra >= copies.size())
    return violation(fmt::format("{}: copy {} of chunk {} came and was never sent", who, event.extra, event.number));
  copies[event.extra].failed = true;
  if (event.kind == EventKind::kCopyOvertaken && event.extra + 1 == copies.size())
    violation(fmt::format("{}: the last copy of chunk {} gave way to an earlier one", who, event.number));
}

void Referee::check_replay(const std::string& who, const Chunk& chunk, End& there, const Event& event) {
  bool lost_behind_fence = false;
  bool copy_alive = false;
  for (const auto& [copy, failed] : chunk.copies) {
    // An end that never opened that epoch answers for it from present state, and must never open it afterwards.
    if (fence_clock(there, copy) == nullptr && !there.opened.contains(copy)) there.fenced.emplace(copy, clock_);
    const std::uint64_t* fence = fence_clock(there, copy);
    if (fence == nullptr && !failed) copy_alive = true;
    if (fence != nullptr && (chunk.placed_clock == 0 || chunk.placed_clock > *fence)) lost_behind_fence = true;
  }
  if (!lost_behind_fence) {
    violation(fmt::format("{}: chunk {} was replayed although no path it took was fenced by the receiver without it",
                          who, event.number));
  }
  // A copy whose group was aborted before it went out is void although its path lives on. Communicators that are done
  // abort their group.
  if (copy_alive && !scenario_.aborts(1) && !scenario_.collectives) {
    violation(fmt::format("{}: chunk {} was replayed although a copy was on a path the receiver had not fenced", who,
                          event.number));
  }
}

void Referee::on_placed(const std::string& who, End& here, End& there, const Event& event) {
  const PathEpoch copy{event.path, event.epoch};
  const auto found = there.out.find(event.number);
  if (found == there.out.end()) {
    violation(fmt::format("{}: chunk {} was placed but never sent", who, event.number));
    return;
  }
  Chunk& chunk = found->second;
  if (chunk.placed_clock != 0) violation(fmt::format("{}: chunk {} was announced twice", who, event.number));
  if (chunk.placed_clock == 0) chunk.placed_clock = clock_;
  if (std::ranges::find(chunk.copies, copy, &SentCopy::way) == chunk.copies.end()) {
    violation(fmt::format("{}: chunk {} was placed from path {} epoch {}, on which it was never sent", who,
                          event.number, r2ccl::to_text(event.path), event.epoch.value));
  }
  if (fence_clock(here, copy) != nullptr) {
    violation(fmt::format("{}: chunk {} was placed from path {} epoch {} after that end had fenced it", who,
                          event.number, r2ccl::to_text(event.path), event.epoch.value));
  }
}

}  // namespace r2ccl::sim
