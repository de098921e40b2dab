#pragma once
// Buffers that the executions of a communicator reuse: fresh pages cost more than what is reduced from them. Not zeroed.
//
// Threads    One at a time.

#include <cstddef>
#include <memory>
#include <vector>

namespace r2ccl {

class Pool final {
 public:
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
  };
  Block take(std::size_t bytes);  // at least so many, and not above kWaste times that from a block that was idle
  void give_back(Block block);
  std::size_t idle_bytes() const { return idle_bytes_; }

  static constexpr std::size_t kIdleBytesMax = 256 << 20;  // the largest go first
  static constexpr std::size_t kWaste = 4;
  static constexpr std::size_t kSmallest = 4096;

 private:
  std::vector<Block> idle_;  // smallest first
  std::size_t idle_bytes_ = 0;
};

}  // namespace r2ccl
