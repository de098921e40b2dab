#pragma once
// Measures how long a fault held a session up, from the events of both ends.

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/loopback/support/shared.h"

namespace r2ccl::loopback {

struct Stall {
  // From the fault to the next chunk that was placed, in the slower direction.
  Duration next_chunk{};
  // From the fault until every chunk that was on the broken NIC's path and had not arrived is in. A collective waits
  // for this.
  Duration repaired{};
  // The longest time without a finished message, from shortly before the fault until the repair, in the slower
  // direction.
  Duration message_gap{};
  std::size_t chunks_caught = 0;  // on the broken path when it broke
};

// `logs` are what both ends recorded, oldest first; `fault` is a kFaultInjected of the end whose process id is the
// lower one if `end_is_lower`. Nothing: the traffic ended before the repair.
std::optional<Stall> measure_stall(const std::array<std::vector<Event>, 2>& logs, const Event& fault,
                                   bool end_is_lower);

Duration median(std::vector<Duration> values);

}  // namespace r2ccl::loopback
