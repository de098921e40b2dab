#pragma once
// One collective of ranks that share a board (board.h). It needs no schedule: it goes in rounds, in which every rank
// posts what others want to read and then reads what it wants itself.
//
//   all_reduce, reduce   small: a round in which everybody posts its input; whoever wants the result reduces all of it.
//                        large: in chunks. Round t posts the input of chunk t, for each rank the share it reduces, and
//                        the own share of the result of chunk t - 1; then the own share of chunk t is reduced and the
//                        shares of t - 1 are copied out.
//   reduce_scatter       as the first half of that
//   the others           post what others want, copy what one wants
//
// Reductions are in the order of ranks, ((0 + 1) + 2) + …, whatever the size, so results have the same bits on every
// rank. A rank that reads nothing does not wait for those that do, except where its slot is still being read.
//
// Ownership  Board, device and user memory are borrowed until over(). Threads: one at a time.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "comm/call.h"
#include "comm/server/board.h"
#include "device/device.h"

namespace r2ccl {

class BoardRun final {
 public:
  // Input and output as the call means them; all_to_all must not be in place. count > 0. `kind` stands for the call's
  // operation.
  BoardRun(Board& board, const Device& device, const Call& call, ReduceKind kind, std::uint64_t tag);

  // Goes as far as it can, a round at most. True: something moved.
  bool step();
  bool over() const { return part_ == Part::kOver; }
  // A rank that posted something else than we did; then the run goes no further.
  const std::optional<std::uint32_t>& mismatched() const { return mismatched_; }
  std::vector<std::uint32_t> waiting_for() const;  // the first that is missing; none when it gets on

 private:
  enum class Part : std::uint8_t { kPost, kRead, kOver };
  struct Range {
    std::uint64_t first = 0;  // elements
    std::uint64_t count = 0;
  };

  void cut(std::uint64_t total, std::uint64_t most);
  bool is_root() const { return board_.rank() == call_.peer; }
  bool wants_result() const { return call_.kind == CallKind::kAllReduce || is_root(); }
  bool reads(std::uint32_t rank) const;
  std::uint32_t first_unread() const;
  bool tags_agree();
  void fill(std::byte* slot) const;
  void drain() const;
  void drain_shares(std::uint64_t round) const;
  void drain_blocks(std::uint64_t round) const;
  void reduce_from_all(std::byte* result, const std::byte* own, std::uint64_t round, std::uint64_t offset,
                       std::uint64_t count) const;
  void copy(std::byte* to, const std::byte* from, std::uint64_t count) const;
  Range chunk(std::uint64_t number) const;
  Range share(const Range& chunk, std::uint32_t rank) const;
  const std::byte* input(std::uint64_t element) const { return input_ + element * width_; }
  std::byte* output(std::uint64_t element) const { return output_ + element * width_; }

  Board& board_;
  const Device& device_;
  const Call call_;
  const ReduceKind kind_;
  const std::uint64_t tag_;
  const std::size_t width_;
  const std::byte* const input_;
  std::byte* const output_;
  bool by_shares_ = false;    // all_reduce and reduce of much
  std::uint64_t stride_ = 0;  // bytes between what a slot holds for two ranks
  std::uint64_t total_ = 0;   // elements to cut into chunks: of the buffer, or of one block
  std::uint64_t chunk_count_ = 0;
  std::uint64_t chunks_ = 0;
  std::uint64_t rounds_ = 0;
  std::uint64_t next_ = 0;  // round of this run, from 0
  Part part_ = Part::kPost;
  std::optional<std::uint32_t> mismatched_;
};

}  // namespace r2ccl
