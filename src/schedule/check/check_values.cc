#include "schedule/check/check_values.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace r2ccl {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0x9e3779b97f4a7c15;
  x ^= x >> 29;
  return x;
}

}  // namespace

ContributionSets::ContributionSets(std::uint32_t ranks)
    : ranks_(ranks), width_(ranks / 64 + 1), scratch_(width_, 0), interned_(1024, kNothing), memo_(1024) {
  words_.assign(width_, 0);  // kNothing
  count_ = 1;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::ranges::fill(scratch_, std::uint64_t{0});
    scratch_[r / 64] = std::uint64_t{1} << (r % 64);
    intern();
  }
  std::ranges::fill(scratch_, std::uint64_t{0});
  for (std::uint32_t r = 0; r < ranks; ++r) scratch_[r / 64] |= std::uint64_t{1} << (r % 64);
  full_ = intern();
}

std::uint64_t ContributionSets::hash_of(const std::uint64_t* words) const {
  std::uint64_t h = 0;
  for (std::uint32_t i = 0; i < width_; ++i) h = mixed(h + words[i]);
  return h;
}

SetId ContributionSets::intern() {
  if (std::size_t{count_} * 2 > interned_.size()) grow_interned();
  const std::size_t mask = interned_.size() - 1;
  std::size_t at = hash_of(scratch_.data()) & mask;
  for (; interned_[at] != kNothing; at = (at + 1) & mask) {
    const std::uint64_t* known = words_.data() + std::size_t{interned_[at]} * width_;
    if (std::equal(scratch_.begin(), scratch_.end(), known)) return interned_[at];
  }
  interned_[at] = count_;
  words_.insert(words_.end(), scratch_.begin(), scratch_.end());
  return count_++;
}

void ContributionSets::grow_interned() {
  interned_.assign(interned_.size() * 2, kNothing);
  const std::size_t mask = interned_.size() - 1;
  for (SetId set = 1; set < count_; ++set) {
    std::size_t at = hash_of(words_.data() + std::size_t{set} * width_) & mask;
    while (interned_[at] != kNothing) at = (at + 1) & mask;
    interned_[at] = set;
  }
}

void ContributionSets::grow_memo() {
  const std::vector<Memo> old = std::exchange(memo_, std::vector<Memo>(memo_.size() * 2));
  for (const Memo& m : old) {
    if (m.key != 0) memo_[memo_of(m.key)] = m;
  }
}

std::size_t ContributionSets::memo_of(std::uint64_t key) const {
  const std::size_t mask = memo_.size() - 1;
  std::size_t at = mixed(key) & mask;
  while (memo_[at].key != 0 && memo_[at].key != key) at = (at + 1) & mask;
  return at;
}

SetId ContributionSets::remember(std::size_t at, std::uint64_t key) {
  const SetId result = intern();
  memo_[at] = {key, result};
  if (++memo_used_ * 2 > memo_.size()) grow_memo();
  return result;
}

SetId ContributionSets::unite(SetId a, SetId b) {
  const std::uint64_t pair = std::uint64_t{std::min(a, b)} << 32 | std::max(a, b);
  const std::size_t at = memo_of(pair);
  if (memo_[at].key == pair) return memo_[at].result;
  for (std::uint32_t i = 0; i < width_; ++i) {
    const std::uint64_t x = words_[std::size_t{a} * width_ + i];
    const std::uint64_t y = words_[std::size_t{b} * width_ + i];
    if ((x & y) != 0) return kNothing;
    scratch_[i] = x | y;
  }
  return remember(at, pair);
}

SetId ContributionSets::turned(SetId set, std::uint32_t by) {
  if (by == 0 || set == kNothing || set == full_) return set;
  if (set <= ranks_) return single((set - 1 + by) % ranks_);
  // Numbers of sets stay far below 2^31, because their words are bounded; so no pair has this bit.
  const std::uint64_t key = std::uint64_t{1} << 63 | std::uint64_t{by} << 32 | set;
  const std::size_t at = memo_of(key);
  if (memo_[at].key == key) return memo_[at].result;
  std::ranges::fill(scratch_, std::uint64_t{0});
  for (std::uint32_t i = 0; i < width_; ++i) {
    for (std::uint64_t rest = words_[std::size_t{set} * width_ + i]; rest != 0; rest &= rest - 1) {
      const std::uint32_t rank = (i * 64 + static_cast<std::uint32_t>(std::countr_zero(rest)) + by) % ranks_;
      scratch_[rank / 64] |= std::uint64_t{1} << (rank % 64);
    }
  }
  return remember(at, key);
}

std::uint32_t ContributionSets::first_without(SetId a, SetId b) const {
  for (std::uint32_t i = 0; i < width_; ++i) {
    const std::uint64_t rest = words_[std::size_t{a} * width_ + i] & ~words_[std::size_t{b} * width_ + i];
    if (rest != 0) return i * 64 + static_cast<std::uint32_t>(std::countr_zero(rest));
  }
  return ranks_;
}

std::uint32_t ContributionSets::first_common(SetId a, SetId b) const {
  for (std::uint32_t i = 0; i < width_; ++i) {
    const std::uint64_t both = words_[std::size_t{a} * width_ + i] & words_[std::size_t{b} * width_ + i];
    if (both != 0) return i * 64 + static_cast<std::uint32_t>(std::countr_zero(both));
  }
  return ranks_;
}

}  // namespace r2ccl
