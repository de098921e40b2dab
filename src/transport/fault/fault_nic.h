#pragma once
// What is wrong with one NIC right now. The FaultProvider decides it, and every FaultLink of the NIC acts on it.

#include <cstdint>
#include <map>
#include <string>

#include "base/id.h"
#include "base/time.h"

namespace r2ccl {

struct FaultLimits {
  Duration open_timeout = 1s;     // a connection begun or opening on a cut NIC gives up after this
  std::size_t vanished_max = 64;  // inbound connections kept silent on a cut NIC; beyond this the oldest is closed
  std::size_t slow_burst_bytes = 64 * 1024;  // a slow NIC moves this much at once
  std::size_t events_max = 1024;             // NIC events waiting for next_event(); beyond this the oldest is dropped
};

// How many bytes may pass a slow NIC now. A link's step may overdraw it, by at most what one step moves; then nothing
// passes until the debt is paid.
class TokenBucket final {
 public:
  void start(Instant now, std::uint64_t rate_bytes_s, std::size_t burst_bytes);
  void refill(Instant now);
  bool empty() const { return tokens_ <= 0; }
  void take(std::uint64_t bytes) { tokens_ -= static_cast<double>(bytes); }
  Instant next() const;  // when it stops being empty, as of the last refill

 private:
  double rate_bytes_s_ = 0;
  double burst_ = 0;
  double tokens_ = 0;
  Instant filled_at_{};
};

class FaultLink;

struct FaultNic {
  NicId id;
  std::string name;

  bool cut = false;                // nothing passes
  bool carrier_off = false;        // this server sees that: a NicEvent said so
  bool failing = false;            // connections fail at this end with kLocal
  std::uint64_t rate_bytes_s = 0;  // 0 = as fast as it is
  Instant cut_since{};
  TokenBucket out;
  TokenBucket in;

  std::map<std::uint64_t, FaultLink*> links;  // living links by number; links enter and leave by themselves
  std::uint64_t next_number = 1;
};

}  // namespace r2ccl
