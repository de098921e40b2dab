#pragma once
// Every bound of a session, named. Settings change the first block; the rest are constants of the protocol.

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace r2ccl {

struct SessionLimits {
  std::size_t chunk_bytes = 512 * 1024;
  Duration chunk_time = 1ms;    // of the fastest path's rate, if that is less: control frames wait for a chunk to end
  Duration peer_timeout = 60s;  // R2CCL_PEER_TIMEOUT

  std::size_t copy_bytes_max = 32 * 1024;             // messages up to this are copied and complete locally,
  bool callers_copy = false;                          // by whoever sends them; to the session they are like others
  std::size_t replay_buffer_bytes = 4 * 1024 * 1024;  // for those copies; full: they wait for their receipt like others
  std::size_t eager_message_max = 32 * 1024;          // messages up to this leave without a posted receive,
  std::size_t eager_bytes = 1024 * 1024;              // while what was granted to their sender suffices
  bool hand_over_early = false;                       // whole ones that came before their receive: see EarlyMessage
  std::size_t chunk_window = 1024;                    // chunks sent and not in the cumulative receipt
  std::size_t stream_operations_max = 1024;           // pending sends (or receives) per stream
  std::size_t path_in_flight_min = 128 * 1024;
  Duration path_in_flight_time = 10ms;                // of the measured rate, plus the minimum round trip;
  std::size_t path_in_flight_most = 2 * 1024 * 1024;  // but no more than this: what waits falls out of the cache,
  Duration path_in_flight_least_time = 1ms;           // unless that is less than so much time
  double first_rate_bytes_s = 100e6;                  // before anything was measured
  Duration sample_every = 5ms;                        // progress figures while something is unacknowledged
  Duration heartbeat = 1s;
  Duration probe = 20ms;               // heartbeat on probation
  Duration notice_repeat = 20ms;       // PATH_DOWN again until FENCED comes
  Duration all_silent_reconnect = 1s;  // all paths silent: try fresh connections beside the old ones
  Duration no_path_retry = 100ms;
  int refusals_max = 3;             // in a row on one path, no answer on the others, control gone: the process is dead
  Duration state_delay = 200us;     // of receipts and credit for small messages, to ride on data or become needless
  std::size_t receipt_chunks = 16;  // or after that many
  std::size_t receipt_bytes = 256 * 1024;  // or so much; the end of a message that was not copied is told at once
  int corrupt_payloads_max = 3;            // in corrupt_window: probation
  Duration corrupt_window = 10s;
  Duration bye_timeout = 1s;
  Duration undrain_overtakes = 1s;      // the close of a path that was drained before
  Duration open_timeout = 1s;           // from connecting or accepting to the settled epoch
  std::size_t early_joins_max = 4096;   // groups the peer joined before us
  std::size_t ended_groups_max = 1024;  // repeated to the peer after a fence
  std::size_t words_max = 256;          // told by the peer and not taken
  std::size_t paths_max = 64;
};

}  // namespace r2ccl
