#include "plugin/repair_log.h"

#include <fmt/format.h>

#include "base/units.h"

namespace r2ccl::plugin {

void RepairLog::on_event(const Event& event) {
  switch (event.kind) {
    case EventKind::kPathDown:
      if (event.cause == Cause::kDrained || event.cause == Cause::kReplaced) return;
      if (deaths_.empty()) {
        first_ = repaired_ = event.at;
        resent_bytes_ = 0;
      }
      deaths_.push_back({event.path, event.peer, event.cause});
      return;
    case EventKind::kFenceReceived:
      if (!deaths_.empty()) repaired_ = event.at;
      return;
    case EventKind::kChunkReplayed:
    case EventKind::kChunkHedged:
      if (deaths_.empty()) return;
      resent_bytes_ += event.bytes;
      repaired_ = event.at;
      return;
    case EventKind::kPeerDown:
      deaths_.clear();  // then it was not a NIC, and the connections say what it was
      return;
    default:
      return;
  }
}

Instant RepairLog::step(Instant now) {
  if (deaths_.empty()) return kNever;
  if (now < first_ + kSettle) return first_ + kSettle;
  std::string line;
  for (const Death& death : deaths_)
    line += fmt::format("{}{}: {}", line.empty() ? "" : ", ", name_(death.path, death.peer), to_text(death.cause));
  log_.write(LogLevel::kWarn, fmt::format("Path down: {}; {} bytes resent on other paths; repaired in {:.1f} ms", line,
                                          resent_bytes_, to_seconds(repaired_ - first_) * 1e3));
  deaths_.clear();
  return kNever;
}

}  // namespace r2ccl::plugin
