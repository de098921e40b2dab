#pragma once
// Says what state faults put NICs into as time goes by. It has neither clock nor cluster: whoever has them calls step()
// and does what it says.
//
//   waiting ── at= ──▶ biting ── for= ──▶ over          flap: bites and lets go, `period` each, from at= to for=
//
// A fault that starts with an operation, or a share of its bytes, waits until on_reached() says that ranks are there.
// Faults of one NIC add up: a pulled cable stays pulled when a slowness ends, and of several rates the lowest holds.

#include <cstdint>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/fault/fault_spec.h"

namespace r2ccl::lab {

struct LabNicState {
  bool up = true;       // false: switched off in its server
  bool cable = true;    // false: the switch's end is down, carrier is lost
  bool bridged = true;  // false: the switch's end is in no bridge, nothing passes and nothing says so
  std::uint64_t rate_bytes_s = 0;
  friend bool operator==(const LabNicState&, const LabNicState&) = default;
};
std::string to_text(const LabNicState& state, std::uint64_t healthy_rate_bytes_s);  // "ok", "cable out, slow 50 mbit/s"

struct NicChange {
  ServerId server;
  NicId nic;
  LabNicState state;   // that it must have now
  bool reset = false;  // and its connections are to be reset
  std::string why;     // for people: "cable", "cable is over"; empty: not worth a word
};

class FaultClock final {
 public:
  // `base`: what NICs are like without these faults.
  FaultClock(const std::vector<FaultSpec>& faults, const LabNicState& base);

  // What has changed up to `elapsed`, which never goes back; one entry per fault that bites or lets go, in their order.
  std::vector<NicChange> step(Duration elapsed);
  // The ranks have come so far by `elapsed`; faults that waited for it begin now. The share is in millionths of the
  // operation's bytes.
  void on_reached(std::uint64_t operation, std::uint32_t share_ppm, Duration elapsed);
  bool waits_for_ranks() const;  // some fault does
  // When to call step() again; Duration::max() when nothing will ever change by time alone.
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
  const LabNicState base_;
};

}  // namespace r2ccl::lab
