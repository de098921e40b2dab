#include "executor/pool.h"

#include <algorithm>
#include <utility>

namespace r2ccl {
namespace {

constexpr auto kBytes = [](const Pool::Block& block) { return block.bytes; };

}  // namespace

Pool::Block Pool::take(std::size_t bytes) {
  bytes = std::max(bytes, kSmallest);
  const auto fitting = std::ranges::lower_bound(idle_, bytes, {}, kBytes);
  if (fitting != idle_.end() && fitting->bytes / kWaste <= bytes) {
    Block block = std::move(*fitting);
    idle_.erase(fitting);
    idle_bytes_ -= block.bytes;
    return block;
  }
  return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
}

void Pool::give_back(Block block) {
  if (block.memory == nullptr) return;
  idle_bytes_ += block.bytes;
  idle_.insert(std::ranges::lower_bound(idle_, block.bytes, {}, kBytes), std::move(block));
  while (idle_bytes_ > kIdleBytesMax) {
    idle_bytes_ -= idle_.back().bytes;
    idle_.pop_back();
  }
}

}  // namespace r2ccl
