#pragma once
// Which messages of one sending step still lack their receipt. Waits on that step ask here. Sends are added in the
// order of their iterations; receipts come in any order.

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace r2ccl {

struct Iteration {
  std::uint32_t outer = 0;
  std::uint32_t inner = 0;
  friend auto operator<=>(const Iteration&, const Iteration&) = default;
};

class Receipts final {
 public:
  // Returns the number that received() takes when the receipt is in.
  std::uint64_t add(Iteration iteration) {
    if (end_ - begin_ == sends_.size()) grow();
    at(end_) = {.iteration = iteration, .received = false};
    return end_++;
  }
  void received(std::uint64_t number) {
    at(number).received = true;
    while (begin_ != end_ && at(begin_).received) ++begin_;
  }
  // True: no send from `first` to `last`, both included, lacks its receipt. `known` starts at 0 and remembers what was
  // found, so that the next call for the same wait skips it.
  bool all_in(Iteration first, Iteration last, std::uint64_t& known) const {
    if (begin_ == end_ || at(begin_).iteration > last) return true;
    known = std::max(known, begin_);
    if (at(begin_).iteration < first) known = std::max(known, first_not_before(first));
    while (known != end_ && at(known).iteration <= last && at(known).received) ++known;
    return known == end_ || at(known).iteration > last;
  }
  bool open(std::uint64_t number, Iteration first, Iteration last) const {
    return !at(number).received && first <= at(number).iteration && at(number).iteration <= last;
  }

 private:
  struct Send {
    Iteration iteration;
    bool received = false;
  };

  Send& at(std::uint64_t number) { return sends_[number & (sends_.size() - 1)]; }
  const Send& at(std::uint64_t number) const { return sends_[number & (sends_.size() - 1)]; }

  std::uint64_t first_not_before(Iteration iteration) const {
    std::uint64_t low = begin_;
    std::uint64_t high = end_;
    while (low < high) {
      const std::uint64_t middle = low + (high - low) / 2;
      if (at(middle).iteration < iteration) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  void grow() {
    std::vector<Send> larger(std::max<std::size_t>(16, 2 * sends_.size()));
    for (std::uint64_t n = begin_; n != end_; ++n) larger[n & (larger.size() - 1)] = at(n);
    sends_ = std::move(larger);
  }

  std::vector<Send> sends_;  // a ring; its size is a power of two
  std::uint64_t begin_ = 0;  // the oldest send without a receipt
  std::uint64_t end_ = 0;
};

}  // namespace r2ccl
