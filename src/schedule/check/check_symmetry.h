#pragma once
// Schedules whose ranks are alike: it is enough to run some of them.
//
// What is alike. A turn maps rank r to r + ranks (modulo all of them) and every piece of the vector to a piece, so
// that every step of every lane of rank r, with its peers and the set of its pieces mapped, is the same step of the
// same lane of the mapped rank. Sizes of pieces do not matter, because the checker's proof does not depend on them.
//
// A set of pieces that is not one run takes two messages, of two steps next to each other, so what is one message of
// a rank may be two of another. Both ends divide a set alike, since each message is a run of it, in order; nothing
// else happens between the two and nobody waits for them. So it only takes twice the slots: the first ranks are run
// with half of them.
//
// Why it is enough. Execution is deterministic: one order stands for all. So take the order in which the mapped ranks
// do every step together with the first ones. What rank r holds after it is then what the first rank it is mapped
// from holds, mapped; and no rank can be wrong or stuck unless one of the first is. What one of the first ranks
// receives from another rank is what the first rank that this one is mapped from has sent, mapped.

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/check/check_shape.h"
#include "schedule/schedule.h"

namespace r2ccl {

struct Symmetry {
  std::uint32_t ranks = 0;                        // the first so many stand for all
  std::uint32_t turns = 0;                        // ranks * turns is the number of all
  bool split = false;                             // messages of one rank may be two of another
  std::vector<std::vector<std::uint32_t>> piece;  // [turn][piece]: where that many turns bring it

  std::uint32_t turn_of(std::uint32_t rank) const { return rank / ranks; }
};

// With the fewest ranks that stand for all. Nothing if there is no such turn, or for collectives that have a root or
// move data between blocks. `geometry` is that of the schedule, which has passed shape_of().
std::optional<Symmetry> symmetry_of(const Schedule& schedule, const Geometry& geometry);

}  // namespace r2ccl
