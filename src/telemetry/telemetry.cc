#include "telemetry/telemetry.h"

#include <algorithm>

namespace r2ccl {

const char* to_text(EventKind kind) {
  switch (kind) {
    case EventKind::kChunkSent:
      return "chunk sent";
    case EventKind::kChunkHedged:
      return "chunk hedged";
    case EventKind::kChunkReplayed:
      return "chunk replayed";
    case EventKind::kChunkResent:
      return "chunk resent";
    case EventKind::kChunkPlaced:
      return "chunk placed";
    case EventKind::kChunkDuplicate:
      return "chunk duplicate";
    case EventKind::kCopyCorrupt:
      return "copy corrupt";
    case EventKind::kCopyOvertaken:
      return "copy overtaken";
    case EventKind::kMessageDelivered:
      return "message delivered";
    case EventKind::kMessageReleased:
      return "message released";
    case EventKind::kPathUp:
      return "path up";
    case EventKind::kPathTrusted:
      return "path trusted";
    case EventKind::kPathSuspect:
      return "path suspect";
    case EventKind::kPathRecovered:
      return "path recovered";
    case EventKind::kPathDown:
      return "path down";
    case EventKind::kFenceSent:
      return "fence sent";
    case EventKind::kFenceReceived:
      return "fence received";
    case EventKind::kPeerDown:
      return "peer down";
    case EventKind::kVerdict:
      return "verdict";
    case EventKind::kFaultInjected:
      return "fault injected";
    case EventKind::kFaultHealed:
      return "fault healed";
  }
  return "unknown event";
}

std::vector<Event> Telemetry::events() const {
  const std::uint64_t kept = std::min<std::uint64_t>(written_, ring_.size());
  std::vector<Event> out;
  out.reserve(kept);
  for (std::uint64_t i = written_ - kept; i < written_; ++i) out.push_back(ring_[i % ring_.size()]);
  return out;
}

}  // namespace r2ccl
