#pragma once
// Who is in the communicator that a split or a shrink makes, and as which rank. Pure.

#include <nccl.h>

#include <cstdint>
#include <span>
#include <vector>

#include "bindings/nccl/entry/outcome.h"

namespace r2ccl::bindings {

struct ColorKey {
  int color = NCCL_SPLIT_NOCOLOR;
  int key = 0;
};
struct SplitPlace {
  std::uint32_t rank = 0;   // in the new communicator
  std::uint32_t size = 0;   // of the new communicator
  std::uint32_t first = 0;  // rank in the parent of its rank 0
};
// Ordered by key, then by rank in the parent. all[r] is what rank r said.
SplitPlace place_in_split(std::span<const ColorKey> all, std::uint32_t rank);

// Appends to `stay`, in order. Excluding oneself, a rank that is not there, or one twice is misuse.
Outcome ranks_that_stay(std::span<const int> exclude, std::uint32_t rank, std::uint32_t size,
                        std::vector<std::uint32_t>& stay);

}  // namespace r2ccl::bindings
