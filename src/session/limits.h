#pragma once
// Every bound of a session, named. Settings change chunk_bytes, peer_timeout and heartbeat; ProcessOptions
// (runtime/threads/process.h) change how small messages are copied and sent early. The rest are constants of the
// protocol.

#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace r2ccl {

struct SessionLimits {
  std::size_t chunk_bytes = 512 * 1024;
  Duration chunk_time = 1ms;    // a chunk takes the fastest path no longer than this: control frames wait for its end
  Duration peer_timeout = 60s;  // R2CCL_PEER_TIMEOUT

  std::size_t copy_bytes_max = 32 * 1024;             // messages up to this are copied and complete at once
  bool callers_copy = false;                          // the caller made those copies: the session makes none
  std::size_t replay_buffer_bytes = 4 * 1024 * 1024;  // for those copies; when full, sends wait for their receipt
  std::size_t eager_message_max = 32 * 1024;          // messages up to this leave without a posted receive,
  std::size_t eager_bytes = 1024 * 1024;              // as long as their sender's grant, this much, suffices
  bool hand_over_early = false;                       // messages that came before their receive: see EarlyMessage
  std::size_t chunk_window = 1024;                    // chunks sent and not in the cumulative receipt
  std::size_t stream_operations_max = 1024;           // pending sends (or receives) per stream
  std::size_t path_in_flight_min = 128 * 1024;        // a path may always hold this much. It may hold more:
  Duration path_in_flight_time = 10ms;                // what its rate moves in this time, plus the round trip,
  std::size_t path_in_flight_most = 2 * 1024 * 1024;  // but at most this, since what waits falls out of the cache,
  Duration path_in_flight_least_time = 1ms;           // or what its rate moves in this time if that is more
  double first_rate_bytes_s = 100e6;                  // assumed before anything was measured
  Duration sample_every = 5ms;                        // progress figures, while something is unacknowledged
  Duration heartbeat = 1s;
  Duration probe = 20ms;               // heartbeat of a path on probation
  Duration notice_repeat = 20ms;       // PATH_DOWN again until FENCED comes
  Duration all_silent_reconnect = 1s;  // all paths silent: try fresh connections beside the old ones
  Duration no_path_retry = 100ms;
  int refusals_max = 3;             // in a row on one path, no answer on the others, control gone: the process is dead
  Duration state_delay = 200us;     // receipts and small messages' credit wait so long, to ride on data; receipts go
  std::size_t receipt_chunks = 16;  // earlier after so many chunks,
  std::size_t receipt_bytes = 256 * 1024;  // after so many bytes, or when a message is whole that was not copied
  int corrupt_payloads_max = 3;            // so many within corrupt_window: the path is fenced
  Duration corrupt_window = 10s;
  Duration bye_timeout = 1s;
  Duration undrain_overtakes = 1s;      // so late may the close of a drained path come, although it is wanted again
  Duration open_timeout = 1s;           // from connecting or accepting to the settled epoch
  std::size_t early_joins_max = 4096;   // groups the peer joined before us
  std::size_t ended_groups_max = 1024;  // group ends that are repeated to the peer after a fence
  std::size_t notices_max = 256;        // notices from the peer that wait for take_notices()
  std::size_t paths_max = 64;
};

}  // namespace r2ccl
