#pragma once
// Records what happened, for people, tests and metrics: counters and a bounded ring of events.
//
// Threads    One writer, the engine's driver.
// Failure    Writing never fails or blocks; old events are overwritten.

#include <cstdint>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "topology/path_state.h"

namespace r2ccl {

enum class EventKind : std::uint8_t {
  kChunkSent,         // number = chunk, bytes; copy in `extra`
  kChunkHedged,       // a second copy while the first path is suspect
  kChunkReplayed,     // a copy because the path of the earlier one was fenced
  kChunkResent,       // a copy because the receiver asked (bad payload, discarded copy)
  kChunkPlaced,       // whole, checked, first time
  kChunkDuplicate,    // arrived again, dropped
  kCopyCorrupt,       // extra = copy
  kCopyOvertaken,     // did not land because a later one did; extra = copy
  kMessageDelivered,  // number = sequence: announced to the receiver; extra = stream
  kMessageReleased,   // number = sequence: the sender's buffer is free; extra = stream
  kPathUp,            // extra = 1 when on probation
  kPathTrusted,
  kPathSuspect,
  kPathRecovered,  // suspect no more
  kPathDown,       // cause in `cause`
  kFenceSent,      // this end drained and closed; number = cumulative have
  kFenceReceived,
  kPeerDown,
  kVerdict,        // extra = Blame
  kFaultInjected,  // by transport/fault; extra = NIC
  kFaultHealed,
};
const char* to_text(EventKind kind);

struct Event {
  Instant at{};
  EventKind kind{};
  Cause cause = Cause::kNone;
  PathId path{};
  Epoch epoch{};
  ProcessId peer{};
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;
  std::uint64_t extra = 0;
};

struct Counters {
  std::uint64_t messages_sent = 0, messages_received = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;  // first copies of payload
  std::uint64_t chunks_sent = 0, chunks_placed = 0;
  std::uint64_t replayed_chunks = 0, replayed_bytes = 0;
  std::uint64_t hedged_chunks = 0, hedged_bytes = 0;
  std::uint64_t resent_chunks = 0, resent_bytes = 0;
  std::uint64_t duplicate_chunks = 0;
  std::uint64_t corrupt_payloads = 0;
  std::uint64_t paths_down = 0, paths_up = 0, paths_trusted = 0;
  std::uint64_t stale_frames = 0;    // for a group that has ended, or from an old epoch
  std::uint64_t refused_frames = 0;  // frames and notices that are malformed or break the protocol
  std::uint64_t notices_sent = 0;
};

class EventListener {
 public:
  virtual ~EventListener() = default;
  virtual void on_event(const Event& event) = 0;
};

class Telemetry final {
 public:
  explicit Telemetry(std::size_t ring_size = 4096) : ring_(ring_size == 0 ? 1 : ring_size) {}

  Counters counters;

  void record(const Event& event) {
    ring_[written_++ % ring_.size()] = event;
    if (listener_ != nullptr) listener_->on_event(event);
  }
  void set_listener(EventListener* listener) { listener_ = listener; }
  // Oldest first; at most the ring's size.
  std::vector<Event> events() const;

 private:
  std::vector<Event> ring_;
  std::uint64_t written_ = 0;
  EventListener* listener_ = nullptr;
};

}  // namespace r2ccl
