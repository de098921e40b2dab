#pragma once
// Where the ranks of one server exchange data through memory they share: each has two slots, and everything happens in
// rounds.
//
//   In round t a rank writes its slot t % 2, posts it, and reads the others' slots of round t.
//   A slot is written again in round t + 2, when all others have posted t + 1: a rank posts t + 1 after it has read all
//   it wants of t.
//
// So one number per slot is all the synchronisation there is: it says which round the slot holds. Rounds are counted
// over the life of the board, the same on every rank, because all make the same calls in the same order.
//
// Each post carries a tag, by which ranks that do not make the same call find each other out.
//
// Ownership  The memory is the caller's, zero at first. Threads: one at a time in a process.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"

namespace r2ccl {

class Board final {
 public:
  static std::size_t bytes_for(std::uint32_t ranks) { return 2 * std::size_t{ranks} * stride(ranks); }

  Board(std::byte* memory, std::uint32_t ranks, std::uint32_t rank)
      : memory_(memory), stride_(stride(ranks)), ranks_(ranks), rank_(rank) {}

  std::uint32_t ranks() const { return ranks_; }
  std::uint32_t rank() const { return rank_; }
  // How much data a slot holds.
  std::size_t slot_bytes() const { return stride_ - kHead; }

  std::uint64_t round() const { return round_; }  // that this rank posts next
  // All others have posted the round before, so the slot of this one is ours. The first that has not, or UINT32_MAX.
  std::uint32_t missing_before_post() const { return round_ == 0 ? UINT32_MAX : first_missing(round_ - 1); }
  std::byte* slot(std::uint64_t round) const { return at(rank_, round) + kHead; }
  void post(std::uint64_t tag) {
    Head& mine = head(rank_, round_);
    mine.tag = tag;
    ++round_;
    mine.posted.store(round_, std::memory_order_release);
  }

  // If the slot of the next round is ours already, its first line comes to this processor while the caller does
  // something else.
  void fetch_next() {
    if (missing_before_post() == UINT32_MAX) head(rank_, round_).tag = 0;
  }

  bool posted(std::uint32_t rank, std::uint64_t round) const {
    return head(rank, round).posted.load(std::memory_order_acquire) > round;
  }
  // The first of the others that has not posted `round`; UINT32_MAX: all have.
  std::uint32_t first_missing(std::uint64_t round) const {
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
      if (rank != rank_ && !posted(rank, round)) return rank;
    }
    return UINT32_MAX;
  }
  // Of a round that `rank` has posted and that this rank has not left.
  std::uint64_t tag(std::uint32_t rank, std::uint64_t round) const { return head(rank, round).tag; }
  const std::byte* read(std::uint32_t rank, std::uint64_t round) const { return at(rank, round) + kHead; }

 private:
  struct Head {
    std::atomic<std::uint64_t> posted;  // round + 1 of what the slot holds
    std::uint64_t tag;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");
  static constexpr std::size_t kHead = 16;  // the first data of a slot share its cache line
  static_assert(sizeof(Head) == kHead);
  static constexpr std::size_t kSlotMost = 2048 << 10;
  static constexpr std::size_t kAllSlotsMost = 32 << 20;
  static constexpr std::size_t kSlotLeast = 16 << 10;

  static std::size_t stride(std::uint32_t ranks) {
    std::size_t bytes = kAllSlotsMost / 2 / (ranks == 0 ? 1 : ranks);
    bytes = bytes > kSlotMost ? kSlotMost : bytes;
    bytes = bytes < kSlotLeast ? kSlotLeast : bytes;
    return bytes / 4096 * 4096 + 4096;  // pages of their own; the last one holds the head
  }
  std::byte* at(std::uint32_t rank, std::uint64_t round) const {
    R2CCL_ASSERT(rank < ranks_, "the board has no such rank");
    return memory_ + (2 * std::size_t{rank} + round % 2) * stride_;
  }
  Head& head(std::uint32_t rank, std::uint64_t round) const { return *reinterpret_cast<Head*>(at(rank, round)); }

  std::byte* const memory_;
  const std::size_t stride_;
  const std::uint32_t ranks_;
  const std::uint32_t rank_;
  std::uint64_t round_ = 0;
};

}  // namespace r2ccl
