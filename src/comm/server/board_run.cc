#include "comm/server/board_run.h"

#include <algorithm>

namespace r2ccl {
namespace {

constexpr std::uint64_t kLine = 64;  // bytes of a cache line: shares of two ranks do not meet in one
// Below this, in bytes that one rank reads, a second round costs more than reducing everything everywhere.
constexpr std::uint64_t kReducedByAll = 32 << 10;
// With no more than this in a slot, the two slots of each of a few ranks stay in the processors' caches. Where whole
// slots need only a few rounds, these cost less than more and smaller ones that stay there.
constexpr std::uint64_t kCachedSlot = 1 << 20;
constexpr std::uint64_t kFewChunks = 2;

}  // namespace

BoardRun::BoardRun(Board& board, const Device& device, const Call& call, ReduceKind kind, std::uint64_t tag)
    : board_(board),
      device_(device),
      call_(call),
      kind_(kind),
      tag_(tag),
      width_(size_of(call.type)),
      input_(static_cast<const std::byte*>(call.input)),
      output_(static_cast<std::byte*>(call.output)) {
  const std::uint64_t ranks = board.ranks();
  const std::uint64_t slot = std::min(board.slot_bytes(), kCachedSlot);
  const auto lines = [](std::uint64_t bytes) { return bytes / kLine * kLine; };
  switch (call.kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduce:
      by_shares_ = call.count * width_ > slot || call.count * width_ * (ranks - 1) > kReducedByAll;
      if (!by_shares_) {
        cut(call.count, slot);
        break;
      }
      stride_ = lines(board.slot_bytes() / (ranks + 1));
      if (call.count * width_ > kFewChunks * ranks * stride_) stride_ = lines(slot / (ranks + 1));
      cut(call.count, ranks * stride_);
      break;
    case CallKind::kReduceScatter:
    case CallKind::kScatter:
    case CallKind::kAllToAll:
      stride_ = lines(slot / ranks);
      cut(call.count, stride_);
      break;
    default:
      cut(call.count, lines(slot));
  }
  rounds_ = chunks_ + (by_shares_ ? 1 : 0);
}

// Cuts the data into equal chunks of at most `most` bytes. Small messages have no time for divisions.
void BoardRun::cut(std::uint64_t total, std::uint64_t most) {
  total_ = chunk_count_ = total;
  chunks_ = 1;
  if (total * width_ <= most) return;
  chunks_ = (total + most / width_ - 1) / (most / width_);
  chunk_count_ = (total + chunks_ - 1) / chunks_;
}

BoardRun::Range BoardRun::chunk(std::uint64_t number) const {
  const std::uint64_t first = std::min(number * chunk_count_, total_);
  return {first, std::min(chunk_count_, total_ - first)};
}

// A rank's share of a chunk, in elements of the buffer: whole cache lines; the last ranks' may be shorter or empty.
BoardRun::Range BoardRun::share(const Range& chunk, std::uint32_t rank) const {
  const std::uint64_t ranks = board_.ranks();
  const std::uint64_t line = kLine / width_;
  const std::uint64_t each = ((chunk.count + ranks - 1) / ranks + line - 1) / line * line;
  const std::uint64_t first = std::min(rank * each, chunk.count);
  return {chunk.first + first, std::min(each, chunk.count - first)};
}

void BoardRun::copy(std::byte* to, const std::byte* from, std::uint64_t count) const {
  if (to != from && count > 0) device_.copy(to, from, count * width_);
}

bool BoardRun::reads(std::uint32_t rank) const {
  if (rank == board_.rank()) return false;
  switch (call_.kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduce:
      return wants_result() || (by_shares_ && next_ < chunks_);
    case CallKind::kBroadcast:
    case CallKind::kScatter:
      return rank == call_.peer;
    case CallKind::kGather:
      return is_root();
    default:
      return true;
  }
}

// The first rank that has not posted this round among those whose slot is read in it.
std::uint32_t BoardRun::first_unread() const {
  for (std::uint32_t rank = 0; rank < board_.ranks(); ++rank) {
    if (reads(rank) && !board_.posted(rank, board_.round() - 1)) return rank;
  }
  return UINT32_MAX;
}

bool BoardRun::tags_agree() {
  for (std::uint32_t rank = 0; rank < board_.ranks(); ++rank) {
    if (!reads(rank) || board_.tag(rank, board_.round() - 1) == tag_) continue;
    mismatched_ = rank;
    return false;
  }
  return true;
}

bool BoardRun::step() {
  if (mismatched_) return false;
  switch (part_) {
    case Part::kPost:
      if (board_.missing_before_post() != UINT32_MAX) return false;
      fill(board_.slot(board_.round()));
      board_.post(tag_);
      part_ = Part::kRead;
      [[fallthrough]];
    case Part::kRead:
      if (first_unread() != UINT32_MAX) return false;
      if (!tags_agree()) return true;
      drain();
      board_.fetch_next();
      part_ = ++next_ == rounds_ ? Part::kOver : Part::kPost;
      return true;
    case Part::kOver:
      return false;
  }
  return false;
}

std::vector<std::uint32_t> BoardRun::waiting_for() const {
  if (part_ == Part::kOver || mismatched_) return {};
  const std::uint32_t rank = part_ == Part::kPost ? board_.missing_before_post() : first_unread();
  return rank == UINT32_MAX ? std::vector<std::uint32_t>{} : std::vector{rank};
}

// Writes what others read of this rank in this round.
void BoardRun::fill(std::byte* slot) const {
  const Range part = chunk(next_);
  const std::uint32_t me = board_.rank();
  switch (call_.kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduce:
      if (!by_shares_) return copy(slot, input(0), call_.count);
      for (std::uint32_t rank = 0; rank < board_.ranks(); ++rank) {
        const Range its = share(part, rank);
        if (rank != me) copy(slot + rank * stride_, input(its.first), its.count);
      }
      return;
    case CallKind::kReduceScatter:
    case CallKind::kAllToAll:
    case CallKind::kScatter:
      if (call_.kind == CallKind::kScatter && !is_root()) return;
      for (std::uint32_t rank = 0; rank < board_.ranks(); ++rank) {
        if (rank != me) copy(slot + rank * stride_, input(rank * call_.count + part.first), part.count);
      }
      return;
    case CallKind::kBroadcast:
      if (is_root()) copy(slot, input(part.first), part.count);
      return;
    case CallKind::kGather:
      if (is_root()) return;
      [[fallthrough]];
    default:
      copy(slot, input(part.first), part.count);
  }
}

// Reduces in the order of ranks; what the others posted lies at `offset` of their slots.
void BoardRun::reduce_from_all(std::byte* result, const std::byte* own, std::uint64_t round, std::uint64_t offset,
                               std::uint64_t count) const {
  const auto of = [&](std::uint32_t rank) { return rank == board_.rank() ? own : board_.read(rank, round) + offset; };
  if (count == 0) return;
  device_.reduce(result, of(0), of(1), count, call_.type, kind_);
  for (std::uint32_t rank = 2; rank < board_.ranks(); ++rank)
    device_.reduce(result, result, of(rank), count, call_.type, kind_);
}

void BoardRun::drain() const {
  const std::uint64_t round = board_.round() - 1;
  if (!reduces(call_.kind)) return drain_blocks(round);
  if (call_.kind == CallKind::kReduceScatter) {
    // In place the result lies where this rank's own input does, which may be needed last: it grows in our own part of
    // the next slot, that nobody reads.
    const Range part = chunk(next_);
    std::byte* const grown = board_.slot(board_.round()) + board_.rank() * stride_;
    reduce_from_all(grown, input(board_.rank() * call_.count + part.first), round, board_.rank() * stride_, part.count);
    return copy(output(part.first), grown, part.count);
  }
  if (by_shares_) return drain_shares(round);
  if (wants_result()) reduce_from_all(output(0), board_.slot(round), round, 0, call_.count);
}

// The shares of results lie behind those of inputs.
void BoardRun::drain_shares(std::uint64_t round) const {
  const std::uint64_t results = board_.ranks() * stride_;
  if (next_ < chunks_) {
    const Range mine = share(chunk(next_), board_.rank());
    reduce_from_all(board_.slot(board_.round()) + results, input(mine.first), round, board_.rank() * stride_,
                    mine.count);
  }
  if (next_ == 0 || !wants_result()) return;
  const Range before = chunk(next_ - 1);
  for (std::uint32_t rank = 0; rank < board_.ranks(); ++rank) {
    const Range its = share(before, rank);
    copy(output(its.first), board_.read(rank, round) + results, its.count);
  }
}

void BoardRun::drain_blocks(std::uint64_t round) const {
  const Range part = chunk(next_);
  const std::uint32_t me = board_.rank();
  switch (call_.kind) {
    case CallKind::kBroadcast:
      return copy(output(part.first), is_root() ? input(part.first) : board_.read(call_.peer, round), part.count);
    case CallKind::kScatter:
      return copy(output(part.first),
                  is_root() ? input(me * call_.count + part.first) : board_.read(call_.peer, round) + me * stride_,
                  part.count);
    case CallKind::kGather:
      if (!is_root()) return;
      break;
    default:
      break;
  }
  const bool to_each = call_.kind == CallKind::kAllToAll;
  for (std::uint32_t rank = 0; rank < board_.ranks(); ++rank) {
    const std::byte* const own = input(to_each ? me * call_.count + part.first : part.first);
    const std::byte* const theirs = board_.read(rank, round) + (to_each ? me * stride_ : 0);
    copy(output(rank * call_.count + part.first), rank == me ? own : theirs, part.count);
  }
}

}  // namespace r2ccl
