#pragma once
// What R2CC_MODE loses. The examples of the first R2CCL measure its modes "with one failure" that the variable alone
// makes; so does ours: the cable of the second NIC of rank 0's server is pulled, by fault injection (transport/fault),
// and never put back.
//
//   R2CC_MODE   when
//   1           in the middle of a call: of the first collective that is large, or of one from the tenth on (is_middle)
//   2, 3        before the first call: the communicator is ready once all ranks have agreed on the map without the NIC
//
// Every process gets the same environment and knows the same members, so all come to the same NIC without a notice;
// those of that server pull the cable, each for itself. The first communicator with other ranks decides, once in the
// life of an endpoint (world.h): communicators that are split off later find the NIC as it is. A program whose
// ranks first meet in several separate communicators loses one NIC in each.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "env/settings.h"
#include "telemetry/stats_page.h"
#include "topology/nic.h"
#include "transport/fault/fault_spec.h"

namespace r2ccl {

struct PlannedLoss {
  std::optional<FaultSpec> fault;  // at once; none: there is nothing that could be lost
  std::string sentence;            // for the log of rank 0
};
// `members`: by rank, at least one. Settings that lose nothing are not asked.
PlannedLoss plan_loss(const Settings& settings, std::span<const ProcessInfo> members);

inline constexpr std::uint64_t kLargeCallBytes = 1 << 20;  // that a rank sends and receives in it
// After so many calls any one will do: a program that makes no large call does not wait for one for ever.
inline constexpr std::uint64_t kSmallCallsMost = 9;
// Whether a rank that has got so far in a collective of `bytes` is in the middle of it.
bool is_middle(const Reached& reached, std::uint64_t bytes);

}  // namespace r2ccl
