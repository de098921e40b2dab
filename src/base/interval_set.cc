#include "base/interval_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/assert.h"

namespace r2ccl {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kWireRangesMax = std::numeric_limits<std::uint16_t>::max();
constexpr std::uint64_t kWireFieldMax = std::numeric_limits<std::uint32_t>::max();

}  // namespace

bool IntervalSet::insert(std::uint64_t number) {
  if (number < cumulative_ || number == kMax) return false;
  if (number == cumulative_ && ranges_.empty()) {
    ++cumulative_;
    return true;
  }
  if (contains(number)) return false;
  insert_range(number, number);
  return true;
}

void IntervalSet::insert_range(std::uint64_t first, std::uint64_t last) {
  R2CCL_ASSERT(first <= last && last < kMax, "a range needs first <= last < the last 64-bit number");
  if (last < cumulative_) return;
  if (first <= cumulative_) {
    cumulative_ = last + 1;
    absorb_front();
    return;
  }
  // Ranges that touch or overlap [first, last] become one with it.
  const auto begin = std::ranges::lower_bound(ranges_, first, {}, [](const Range& r) { return r.last + 1; });
  auto end = begin;
  while (end != ranges_.end() && end->first <= last + 1) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
    ++end;
  }
  if (begin == end) {
    ranges_.insert(begin, Range{first, last});
  } else {
    *begin = Range{first, last};
    ranges_.erase(begin + 1, end);
  }
}

void IntervalSet::absorb_front() {
  auto it = ranges_.begin();
  while (it != ranges_.end() && it->first <= cumulative_) {
    cumulative_ = std::max(cumulative_, it->last + 1);
    ++it;
  }
  ranges_.erase(ranges_.begin(), it);
}

bool IntervalSet::contains(std::uint64_t number) const {
  if (number < cumulative_) return true;
  const auto it = std::ranges::lower_bound(ranges_, number, {}, &Range::last);
  return it != ranges_.end() && it->first <= number;
}

void IntervalSet::merge(const IntervalSet& other) {
  if (other.cumulative_ > cumulative_) {
    cumulative_ = other.cumulative_;
    absorb_front();
  }
  for (const Range& range : other.ranges_) insert_range(range.first, range.last);
}

bool IntervalSet::includes(const IntervalSet& other) const {
  if (other.cumulative_ > cumulative_) return false;
  return std::ranges::all_of(other.ranges_, [this](const Range& range) {
    if (range.last < cumulative_) return true;
    const auto it = std::ranges::lower_bound(ranges_, range.last, {}, &Range::last);
    return it != ranges_.end() && it->first <= range.first;
  });
}

void IntervalSet::write(Writer& out) const {
  std::uint64_t next = cumulative_;
  std::size_t count = 0;
  for (const Range& range : ranges_) {
    if (count == kWireRangesMax || range.first - next > kWireFieldMax || range.last - range.first >= kWireFieldMax)
      break;
    next = range.last + 1;
    ++count;
  }
  out.put(cumulative_);
  out.put(static_cast<std::uint16_t>(count));
  next = cumulative_;
  for (const Range& range : std::span(ranges_).first(count)) {
    out.put(static_cast<std::uint32_t>(range.first - next));
    out.put(static_cast<std::uint32_t>(range.last - range.first + 1));
    next = range.last + 1;
  }
}

Result<IntervalSet> IntervalSet::read(Reader& in, std::size_t ranges_max) {
  IntervalSet set;
  set.cumulative_ = in.get<std::uint64_t>();
  const std::size_t count = in.get<std::uint16_t>();
  if (!in.ok()) return fail(Fault::kMisuse, "a number set is cut short");
  if (set.cumulative_ == 0) return fail(Fault::kMisuse, "a number set has bound 0; 0 is always in");
  if (count > ranges_max)
    return fail(Fault::kMisuse, fmt::format("a number set has {} ranges; at most {} are allowed", count, ranges_max));
  if (in.left() < count * 8) return fail(Fault::kMisuse, "a number set is cut short");
  set.ranges_.reserve(count);
  std::uint64_t next = set.cumulative_;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t gap = in.get<std::uint32_t>();
    const std::uint64_t length = in.get<std::uint32_t>();
    if (gap == 0 || length == 0) return fail(Fault::kMisuse, fmt::format("range {} of a number set is empty", i));
    if (kMax - next < gap + length) return fail(Fault::kMisuse, fmt::format("range {} of a number set overflows", i));
    set.ranges_.push_back({next + gap, next + gap + length - 1});
    next += gap + length;
  }
  return set;
}

}  // namespace r2ccl
