#pragma once
// A set of 64-bit numbers that fills up from below: everything under a cumulative bound, plus ranges above it. Receipts
// and fences are such sets. Numbers start at 1; 0 is always in. Inserting in order is O(1), out of order O(ranges), and
// there are few ranges: about one per path. The highest 64-bit number is never in; insert refuses it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace r2ccl {

class IntervalSet final {
 public:
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;  // inclusive
    friend bool operator==(const Range&, const Range&) = default;
  };

  bool insert(std::uint64_t number);                           // False: it was in already.
  void insert_range(std::uint64_t first, std::uint64_t last);  // All of [first, last].
  bool contains(std::uint64_t number) const;
  // Every number below this one is in, this one is not.
  std::uint64_t cumulative() const { return cumulative_; }
  // Ordered, disjoint, not adjacent to each other or to the bound.
  std::span<const Range> ranges() const { return ranges_; }
  void merge(const IntervalSet& other);
  bool includes(const IntervalSet& other) const;
  friend bool operator==(const IntervalSet&, const IntervalSet&) = default;

  // u64 cumulative, u16 count, then per range u32 gap (numbers missing before it), u32 length. If there are more ranges
  // than fit, or one does not fit the fields, the highest are left out: the receiver then knows less, never more.
  void write(Writer& out) const;
  // Fails with kMisuse on short input, more than `ranges_max` ranges, an empty gap or range, or numbers that overflow.
  static Result<IntervalSet> read(Reader& in, std::size_t ranges_max);
  static constexpr std::size_t wire_size(std::size_t ranges) { return 10 + 8 * ranges; }

 private:
  void absorb_front();  // The bound swallows ranges that it reached.

  std::uint64_t cumulative_ = 1;
  std::vector<Range> ranges_;
};

}  // namespace r2ccl
