#pragma once
// Every bound of a link over a byte stream and of the provider that makes such links, named.

#include <cstddef>

#include "base/time.h"

namespace r2ccl {

struct StreamLimits {
  Duration open_timeout = 1s;        // connect and handshake together, either end
  std::size_t half_open_max = 256;   // inbound connections that have not proven themselves; the oldest goes first
  Duration half_open_grace = 100ms;  // but not before this age: until then newcomers wait in the listen queue
  // Failed handshakes per second; beyond this, inbound connections are closed unread for the rest of the second.
  std::size_t unproven_per_second_max = 100;
  std::size_t accepts_per_step = 64;
  std::size_t ready_max = 256;                   // proven links that nobody has taken; beyond this nothing is accepted
  std::size_t control_queue_bytes = 256 * 1024;  // frames without payload
  std::size_t data_queue_frames = 256;           // frames with payload
  std::size_t read_bytes_per_step = 4 * 1024 * 1024;
  std::size_t write_bytes_per_step = 4 * 1024 * 1024;
  std::size_t drain_bytes_max = 64 * 1024 * 1024;  // a fence reads no more than this from a sender that does not stop
  bool checksum = true;                            // covers payloads; header and body always have one
  bool align_payloads = false;  // pad payloads as frame.h says; a frame's length then depends on where its memory lies
};

}  // namespace r2ccl
