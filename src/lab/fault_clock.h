#pragma once
// What faults make of NICs as time goes by. Values only; whoever has the clock and the cluster calls step() and does what it says.
//
//   waiting ── at= ──▶ biting ── for= ──▶ over          flap: bites and lets go, `period` each, from at= to for=
//
// Faults of one NIC add up: a pulled cable stays pulled when a slowness ends, and of several rates the lowest holds.

#include <cstdint>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/fault/fault_spec.h"

namespace r2ccl::lab {

struct NicState {
  bool up = true;       // false: switched off in its server
  bool cable = true;    // false: the switch's end is down, carrier is lost
  bool bridged = true;  // false: the switch's end is in no bridge, nothing passes and nothing says so
  std::uint64_t rate_bytes_s = 0;
  friend bool operator==(const NicState&, const NicState&) = default;
};
std::string to_text(const NicState& state, std::uint64_t healthy_rate_bytes_s);  // "ok", "cable out, slow 50 mbit/s"

struct NicChange {
  ServerId server;
  NicId nic;
  NicState state;      // that it must have now
  bool reset = false;  // and its connections are to be reset
  std::string why;     // for people: "cable", "cable is over"; empty: not worth a word
};

// Faults that start with an operation or a share of bytes are refused: nothing here knows how far ranks have come.
Status check_starts(const std::vector<FaultSpec>& faults);

class FaultClock final {
 public:
  // `base`: what NICs are like without these faults. Every fault must start at a time.
  FaultClock(const std::vector<FaultSpec>& faults, const NicState& base);

  // What has changed up to `elapsed`, which never goes back; one entry per fault that bites or lets go, in their order.
  std::vector<NicChange> step(Duration elapsed);
  // When to call it again; Duration::max() when nothing will ever change.
  Duration next() const;

 private:
  struct Entry {
    FaultSpec spec;
    Duration next{};
    bool biting = false;
    bool told = false;
  };
  static Duration end_of(const FaultSpec& spec);
  bool advance(Entry& entry, Duration elapsed) const;
  static std::string words_of(Entry& entry);
  NicChange change_of(Entry& entry) const;

  std::vector<Entry> entries_;
  const NicState base_;
};

}  // namespace r2ccl::lab
