#pragma once
// An all_reduce in two hops: every rank owns the piece of its number, is sent it by all others, adds in fixed order and
// sends the sum straight back.

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace r2ccl {

// One of the hops: the rounds (outer iterations) in which it is made, and the segment that it moves in each of them.
struct Hop {
  std::uint32_t begin = 0;
  std::uint32_t end = 1;
  Index segment = {};
};

// Lanes of rank `me` of `ranks`. The second hop takes as many rounds as the first, begins later and waits for the sums
// that it sends.
std::vector<Lane> two_hops(std::uint32_t me, std::uint32_t ranks, const Hop& first, const Hop& second);

}  // namespace r2ccl
