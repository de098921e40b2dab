#pragma once
// One path of a session: its connection now, the count of those it has had (its epoch), and what is known about its
// speed and health. The session changes it; this is only the record.
//
//   state        event                                              next
//   kClosed      connector: retry time came, a connection is begun   kOpening
//   kOpening     OPEN_ACK settles a new epoch                        kProbation, or kUp if it never failed
//   kOpening     attempt failed, peer's PATH_DOWN for that epoch     kClosed
//   any          acceptor: OPEN on a connection that came in         kProbation, or kUp if it never failed
//   kProbation   clean for its time, or no other path left           kUp
//   kUp          unacknowledged and silent for 25 ms                 kSuspect
//   kSuspect     acknowledged again                                  kUp
//   up states    link down, carrier lost, peer's PATH_DOWN, newer    kFencing
//                OPEN, or 150 ms silent while others speak
//   kFencing     the other end's FENCED, or OPEN of a newer epoch    kClosed
//   up states    drained at either end and both idle                 kFencing, then kDrained
//   kDrained     undrained at both ends                              kClosed
//
// Up states are kProbation, kUp and kSuspect; `link` is set in these and no others. `opening` is a connection that no
// epoch is settled for yet. It may be set beside `link`: when all paths are silent the connector tries a fresh
// connection, which may get through where the old one does not. Only the connector is ever kOpening.

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>

#include "base/id.h"
#include "health/comeback.h"
#include "health/silence.h"
#include "session/limits.h"
#include "session/rate.h"
#include "topology/nic.h"
#include "transport/link.h"

namespace r2ccl {

enum class PathState : std::uint8_t { kClosed, kOpening, kUp, kProbation, kSuspect, kFencing, kDrained };
const char* to_text(PathState state);

struct Path {
  Path(PathId path_id, NicId nic_here, NicId nic_there, const Address& remote_address, const SessionLimits& limits,
       const SilenceLimits& silence_limits, const ComebackLimits& comeback_limits)
      : id(path_id),
        here(nic_here),
        there(nic_there),
        remote(remote_address),
        rate(limits.first_rate_bytes_s),
        silence(silence_limits),
        comeback(comeback_limits) {}

  const PathId id;
  const NicId here, there;
  const Address remote;
  double distance_weight = 1.0;

  PathState state = PathState::kClosed;
  Epoch epoch;        // belongs to `link`, or to the last one
  Epoch seen;         // highest epoch either end ever named
  Epoch peer_fenced;  // the other end has fenced up to here
  Cause last_cause = Cause::kNone;
  std::unique_ptr<Link> link;
  std::unique_ptr<Link> opening;
  bool open_sent = false;
  int refusals = 0;  // attempts in a row that found nobody listening; one alone may be a flipped bit in the handshake
  bool unanswered = false;  // the last attempt that ended got nowhere
  int attempts_missed = 0;  // attempts that failed before the first success, while another path was up
  Epoch proposed;
  Instant last_attempt{};

  RateMeter rate;
  Silence silence;
  Comeback comeback;
  std::uint64_t in_flight_bytes = 0;
  Instant last_posted{};  // any frame
  Instant last_heard{};   // any frame in
  Instant last_alive{};   // frame in, or acknowledgements advanced
  std::uint64_t acked_bytes = 0;
  Duration min_rtt{};
  Instant next_sample = kNever;
  Instant probation_until{};
  bool blocked = false;            // the link took no more this turn
  bool posted = false;             // something was posted this turn
  std::optional<ChunkId> landing;  // chunk now arriving in memory
  std::uint16_t landing_copy = 0;
  GroupId landing_group;

  Instant down_since{};
  Instant next_notice = kNever;
  Duration notice_wait{};
  bool peer_idle = false;  // draining: the other end has nothing under way
  bool idle_told = false;
  Instant idle_told_at = kNever;
  std::deque<Instant> corrupt;

  // A chunk's copy leaves on this path; it is in, or lost.
  void chunk_out(Instant now, std::uint32_t bytes) {
    rate.on_sent(now, bytes);
    in_flight_bytes += bytes;
  }
  void chunk_in(Instant now, std::uint32_t bytes, bool by_this_path) {
    by_this_path ? rate.on_acked(now, bytes) : rate.on_lost(now, bytes);
    in_flight_bytes -= std::min<std::uint64_t>(in_flight_bytes, bytes);
  }
  bool is_rail() const { return here == there; }
};

}  // namespace r2ccl
