#pragma once
// Proves a schedule by symbolic execution over all ranks; refuses a wrong one with rank, lane, step and reason. What is
// proven, for every size of the data at once:
//  - every rank ends with exactly the promised contributions, each exactly once, and nothing is written outside its
//    buffers;
//  - sends meet receives: same peers, channel, order and range;
//  - it ends: no cycle of waits with the stated number of slots (execution is deterministic, so one order stands for
//    all);
//  - no buffer is overwritten while a send may still read it, no range is read before it is complete, no two lanes
//    race;
//  - scratch is bounded by the stated slots;
// out of place and in place.
//
// Loops longer than needed are shortened first: an outer loop whose iterations are alike is run for its start and
// end, the deepest distance between iterations that depend on each other, the slots (two at most) and one more in
// periods of its guards, and two (check_shorten.h). Of ranks that are alike only the first are run
// (check_symmetry.h). A refusal of the short form is confirmed by the full one where that is affordable. `full` runs
// all.

#include <cstdint>

#include "base/result.h"
#include "schedule/schedule.h"

namespace r2ccl {

struct CheckOptions {
  bool full = false;
};

struct CheckReport {
  std::uint64_t messages = 0;  // executed in the check
  std::uint64_t steps = 0;     // the most that any rank stores
};

// kMisuse with one sentence: "rank 3, lane rs_in, step 0 (iteration 2.1): …".
Result<CheckReport> check(const Schedule& schedule, const CheckOptions& options = {});

// Bytes a rank needs besides its buffers for `bytes` of data: scratch slots, and the staging of messages that are
// reduced on arrival (slots of each of its incoming connections). The largest over all ranks. The schedule must have
// passed the checker.
std::uint64_t scratch_bytes(const Schedule& schedule, std::uint64_t bytes);

}  // namespace r2ccl
