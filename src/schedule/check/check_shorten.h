#pragma once
// Shorter schedules that stand for longer ones: a pipeline over K segments is proven for as many segments as it takes
// to see everything that can happen in it.
//
// When. Every lane runs its outer loop once per segment, plus a tail (outer = K + c); every step works on segment outer
// + constant; every other index and guard depends on the outer iteration only through a modulus. Then shifting all
// iterations of all lanes by the period P (the least common multiple of those moduli) maps steps to steps, away from
// the two ends; ends of ranges near the start stay where they are, those near the end move with K.
//
// Why it is enough. Two steps touch each other in one of five ways: order in a lane (distance at most 1), a message or
// a cell (same segment, so no further apart than two segment constants differ), a wait (its offset), a scratch slot
// (reused after P), a slot of a connection (its last message but `slots`, no more than slots * P iterations back). So
// what is wrong in a long run, namely two steps that race, a sum that lacks or repeats a rank, messages that do not
// meet, or a circle of steps that wait for each other, is wrong within a window of that many iterations. The window
// lies at the start, at the end, or is a shift by a multiple of P of one in between; with K' = start + end + depth +
// (slots + 1) * P + 2 and K' = K modulo P the short run has all three kinds. Fewer slots can only make a circle more
// likely, so the short run has at most two, which keeps it short.

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/schedule.h"

namespace r2ccl {

// Sweeps. A lane may also go through all segments in its inner loop, again and again (a ring, step by step), if it
// treats them alike: peers, spans and guards do not depend on the segment, an outer iteration has at most one message
// of a connection for each segment, and waits are for all segments or for the same. Then it can be proven with any
// segments left out. What races with some left out is what races with all, because two steps that touch work on the
// same segment, and what orders them is left in. Bring neighbouring segments together in one, and every circle of
// steps that wait for each other is still a circle, as long as a sender may be ahead by the same number of whole
// outer iterations; so sweeps have slots of their own. A circle can not go through sweeps and other lanes: those may
// wait for sweeps, before their first round only, but sweeps wait for nobody else and share no channel with others.

struct Shorter {
  Schedule schedule;
  std::vector<std::uint32_t> sweep_channels;  // sorted
  std::uint32_t sweep_slots = 0;              // of their connections; others have the schedule's
};

// Nothing when the schedule does not follow the pattern or is short already. Safe for any schedule: reads no index.
// Has the lanes of the first `ranks` only, which must stand for all.
std::optional<Shorter> shortened(const Schedule& schedule, std::uint32_t ranks = UINT32_MAX);

}  // namespace r2ccl
