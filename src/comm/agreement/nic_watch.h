#pragma once
// What one process sees of its own NICs. The ranks agree on a health map from it, and plans follow that map; sessions
// do not wait for it, they avoid a bad path by themselves.
//
//   lost   no carrier; or paths begin at the NIC and none is up; or none of them opened for kOpenTime while another
//          NIC's did
//   slow   to every peer its rate was well below its best sibling's for kSlowTime, or far below for kVerySlowTime.
//          (Where processors are short, rates differ for a second without any NIC being slow.)
//
// A path whose other end has no carrier says nothing about the NIC here: a process that has used its session with one
// peer only would otherwise take that peer's lost NIC for its own.

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "base/time.h"
#include "comm/agreement/health_map.h"
#include "session/session.h"

namespace r2ccl {

class NicWatch final {
 public:
  static constexpr Duration kOpenTime = 1s;
  static constexpr Duration kSlowTime = 1s;
  static constexpr Duration kVerySlowTime = 300ms;
  static constexpr Duration kFresh = 2s;  // an older rate says nothing: perhaps nobody sends to that peer any more
  static constexpr double kSlow = 0.4;    // of the best sibling
  static constexpr double kVerySlow = 0.3;
  static constexpr double kWell = 0.6;    // to be believed again
  static constexpr Permille kStep = 125;  // rates are rounded to this, so that small changes are not reported

  explicit NicWatch(std::uint32_t nics) : nics_(nics) {}

  // `paths`: of one session each; `without_carrier`: NICs here. Valid until the next call.
  std::span<const Permille> look(std::span<const std::vector<PathView>> sessions,
                                 const std::set<NicId>& without_carrier, Instant now);

 private:
  struct Nic {
    bool slow = false;
    Permille rate = kWhole;     // while slow
    Instant changing = kNever;  // since when the rate says otherwise
    Instant unopened = kNever;  // since when it is waited for
  };
  void judge_rate(Nic& nic, double ratio, Instant now);
  // Not one of its paths was ever up.
  static bool never_opens(Nic& nic, bool others_up, Instant now);

  const std::uint32_t nics_;
  std::vector<Nic> state_;
  std::vector<Permille> seen_;
};

}  // namespace r2ccl
