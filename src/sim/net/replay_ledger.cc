#include "sim/net/replay_ledger.h"

#include <algorithm>

namespace r2ccl::sim {

void ReplayLedger::see(const Sighting& sighting) {
  const Event& event = sighting.event;
  Flow& out = flows_[{sighting.process, sighting.peer}];
  Flow& in = flows_[{sighting.peer, sighting.process}];
  switch (event.kind) {
    case EventKind::kChunkReplayed:
      replayed_bytes_ += event.bytes;
      [[fallthrough]];
    case EventKind::kChunkSent:
    case EventKind::kChunkHedged:
    case EventKind::kChunkResent:
      out.chunks[event.number].bytes = event.bytes;
      out.chunks[event.number].copies.push_back({event.path, event.epoch});
      return;
    case EventKind::kChunkPlaced:
      in.placed.insert(event.number);
      return;
    case EventKind::kFenceSent:
      in.fences[event.path][event.epoch] = in.placed;
      return;
    case EventKind::kFenceReceived:
      return on_agreed(out, event.path, {static_cast<std::uint32_t>(event.extra)});
    default:
      return;
  }
}

void ReplayLedger::on_agreed(Flow& flow, PathId path, Epoch epoch) {
  // An end that never opened that epoch answers for it from present state.
  const auto fence = flow.fences[path].find(epoch);
  const Have have = fence == flow.fences[path].end() ? flow.placed : fence->second;
  for (auto& [number, chunk] : flow.chunks) {
    bool lost = false;
    bool alive = false;
    for (Copy& copy : chunk.copies) {
      if (copy.path == path && copy.epoch <= epoch) lost |= !std::exchange(copy.fenced, true);
      alive |= !copy.fenced;
    }
    if (lost && !alive && !have.contains(number)) must_bytes_ += chunk.bytes;
  }
}

}  // namespace r2ccl::sim
