#pragma once
// Why a path went down, and how it gets on, as values. Transport reports both and health judges them; neither includes
// the other, so the values are here.

#include <cstdint>

#include "base/time.h"

namespace r2ccl {

// Why a link is down, as far as this end can tell.
enum class Cause : std::uint8_t {
  kNone,
  kRefused,   // nobody listens there: connection refused
  kReset,     // reset by the other end
  kClosed,    // end of stream; a fault unless BYE came first
  kTimeout,   // connect or handshake took too long, or the kernel gave up (ETIMEDOUT, EHOSTUNREACH)
  kLocal,     // hard evidence at this end: address gone, ENETDOWN, ENETUNREACH, carrier off
  kUnproven,  // the other end does not know the secret, or spoke garbage during the handshake
  kBadFrame,  // framing lost: bad magic, checksum or length
  kSilent,    // judged by health: no acknowledgement in time
  kTold,      // the peer said so
  kCarrier,   // the NIC lost its carrier
  kDrained,   // taken out on purpose
  kReplaced,  // a newer epoch of the same path took over
};
const char* to_text(Cause cause);

// Figures from below the stream (TCP's are in TCP_INFO) by which health judges silence.
struct Progress {
  std::uint64_t acked_bytes = 0;    // acknowledged by the other end's network stack, since the connection began
  std::uint64_t unacked_bytes = 0;  // sent and not acknowledged
  std::uint64_t queued_bytes = 0;   // accepted by post(), not yet sent to the wire
  Duration last_ack_age{};          // since the last acknowledgement of any kind
  Duration srtt{};
  Duration min_rtt{};
};

}  // namespace r2ccl
