#include "apps/r2ccl/demo/demo_tap.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace r2ccl::apps {

DemoTap::DemoTap(ProcessId self, const std::vector<ProcessInfo>& roster, std::size_t nics)
    : roster_(roster), self_(self), sent_bytes_(nics) {}

void DemoTap::on_event(const Event& event) {
  const std::lock_guard guard(mutex_);
  switch (event.kind) {
    case EventKind::kChunkSent:
    case EventKind::kChunkHedged:
    case EventKind::kChunkReplayed:
    case EventKind::kChunkResent:
      return on_copy(event);
    case EventKind::kChunkPlaced:
      return on_placed(event);
    case EventKind::kPathUp:
    case EventKind::kPathTrusted:
    case EventKind::kPathSuspect:
    case EventKind::kPathDown:
    case EventKind::kFenceReceived:
    case EventKind::kVerdict:
    case EventKind::kPeerDown:
    case EventKind::kFaultInjected:
    case EventKind::kFaultHealed:
      reports_.push_back(to_json(describe(event)));
      return;
    case EventKind::kChunkDuplicate:
    case EventKind::kCopyCorrupt:
    case EventKind::kCopyOvertaken:
    case EventKind::kMessageDelivered:
    case EventKind::kMessageReleased:
    case EventKind::kPathRecovered:
    case EventKind::kFenceSent:
      return;
  }
}

void DemoTap::start(Instant now) {
  const std::lock_guard guard(mutex_);
  placed_at_ = now;
}

std::vector<Json> DemoTap::take() {
  const std::lock_guard guard(mutex_);
  std::vector<Json> reports = std::exchange(reports_, {});
  for (const auto& [nic, resent] : resent_) reports.push_back(to_json(resent));
  resent_.clear();
  return reports;
}

std::vector<std::uint64_t> DemoTap::sent_bytes() const {
  const std::lock_guard guard(mutex_);
  return sent_bytes_;
}

DemoEvent DemoTap::describe(const Event& event) const {
  const bool lower = self_ < event.peer;
  return {.kind = event.kind,
          .at = event.at,
          .peer = rank_of(event.peer),
          .here = (lower ? event.path.low : event.path.high).value,
          .there = (lower ? event.path.high : event.path.low).value,
          .cause = event.cause,
          .number = event.number,
          .extra = event.extra};
}

std::uint32_t DemoTap::rank_of(ProcessId process) const {
  const auto found = std::ranges::find(roster_, process, &ProcessInfo::process);
  return found == roster_.end() ? 0 : static_cast<std::uint32_t>(found->server.value);
}

void DemoTap::on_copy(const Event& event) {
  const std::uint8_t nic = describe(event).here;
  if (nic < sent_bytes_.size()) sent_bytes_[nic] += event.bytes;
  if (event.kind == EventKind::kChunkSent) return;
  DemoResent& resent = resent_[nic];
  resent.nic = nic;
  resent.at = event.at;
  resent.bytes += event.bytes;
}

void DemoTap::on_placed(const Event& event) {
  if (placed_at_ == kNever) return;
  const Instant before = std::exchange(placed_at_, std::max(placed_at_, event.at));
  if (event.at - before >= kGapMin) reports_.push_back(to_json(DemoGap{before, event.at}));
}

}  // namespace r2ccl::apps
