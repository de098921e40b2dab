#pragma once
// Which ranks' contributions a piece of data holds: sets of ranks, each stored once and named by a number, so that a
// value in the checker is eight bytes and adding two of them is a table lookup.

#include <cstdint>
#include <vector>

namespace r2ccl {

using SetId = std::uint32_t;
inline constexpr SetId kNothing = 0;  // nothing was written here

// The contributions of `set` to one cell: `origin` says which cell of the vector they are of.
struct Value {
  std::uint32_t origin = 0;
  SetId set = kNothing;
  friend bool operator==(const Value&, const Value&) = default;
};

class ContributionSets final {
 public:
  explicit ContributionSets(std::uint32_t ranks);

  SetId single(std::uint32_t rank) const { return rank + 1; }
  SetId full() const { return full_; }
  // kNothing when a rank is in both.
  SetId unite(SetId a, SetId b);
  // Every rank of it `by` further on, modulo all of them; `by` is less.
  SetId turned(SetId set, std::uint32_t by);
  bool contains(SetId set, std::uint32_t rank) const {
    return (words_[std::size_t{set} * width_ + rank / 64] >> (rank % 64) & 1) != 0;
  }
  // The lowest rank that is in `a` but not in `b`; in both. `ranks` when there is none.
  std::uint32_t first_without(SetId a, SetId b) const;
  std::uint32_t first_common(SetId a, SetId b) const;
  std::uint64_t bytes() const { return words_.size() * sizeof(std::uint64_t); }

 private:
  struct Memo {
    std::uint64_t key = 0;  // of a pair of sets, or of a set and its turn; never 0 for a stored one
    SetId result = kNothing;
  };

  SetId intern();                                     // the set in `scratch_`
  std::size_t memo_of(std::uint64_t key) const;       // where it is, or is to be
  SetId remember(std::size_t at, std::uint64_t key);  // the set in `scratch_`
  std::uint64_t hash_of(const std::uint64_t* words) const;
  void grow_interned();
  void grow_memo();

  std::uint32_t ranks_;
  std::uint32_t width_;               // words of a set
  std::uint32_t count_ = 0;           // sets
  std::vector<std::uint64_t> words_;  // [set * width_ + word]
  std::vector<std::uint64_t> scratch_;
  std::vector<SetId> interned_;  // open addressing, by content
  std::vector<Memo> memo_;       // open addressing, by key
  std::size_t memo_used_ = 0;
  SetId full_ = kNothing;
};

}  // namespace r2ccl
