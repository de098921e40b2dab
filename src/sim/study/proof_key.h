#pragma once
// What a proof is about, in few bytes: a plan of 1,024 ranks is less than 4 MB as a key and several times that as a
// value, a list of a million steps is hundreds of megabytes as a value.

#include <string>

#include "schedule/schedule.h"

namespace r2ccl::sim {

// Equal for two schedules when the checker's verdict on one holds for the other, and when lanes kept of one
// (FlatLanes) are those of the other: they differ in the sizes of pieces, the rails' shares and NICs, and names at
// most. all_to_all compares the sizes of pieces, so its key has them.
std::string proof_key(const Schedule& schedule);

}  // namespace r2ccl::sim
