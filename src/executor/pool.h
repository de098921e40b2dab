#pragma once
// Buffers that the executions of a communicator use again, because fresh pages from the system cost more than reducing
// what is in them. Not zeroed.
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
  // At least `bytes`. An idle block is used if it is not over kWaste times as large; otherwise a new one is made.
  Block take(std::size_t bytes);
  void give_back(Block block);
  std::size_t idle_bytes() const { return idle_bytes_; }

  static constexpr std::size_t kIdleBytesMax = 256 << 20;  // beyond this the largest idle blocks are freed
  static constexpr std::size_t kWaste = 4;
  static constexpr std::size_t kSmallest = 4096;

 private:
  std::vector<Block> idle_;  // smallest first
  std::size_t idle_bytes_ = 0;
};

}  // namespace r2ccl
