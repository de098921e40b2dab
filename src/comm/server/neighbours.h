#pragma once
// The ranks of a communicator that share a server, and the memory they share. Nobody uses it before everybody there
// can: what has to be said until then travels in the letters of gathering.h, whose contents are made and read here.
//
// The lowest rank of each server makes the memory. There are two things to do with it: collectives of ranks that are
// all on one server (board.h), and messages that are copied straight out of the sender's memory (peer_copy.h), which
// not every kernel allows. Where nothing can be shared, ranks of one server talk over its NICs like any others.
//
// Ownership  Owns the memory, the Board and the PeerCopy.
// Threads    The communicator's.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "comm/server/board.h"
#include "comm/server/peer_copy.h"
#include "topology/nic.h"
#include "transport/shm/arena.h"

namespace r2ccl {

class Neighbours final {
 public:
  // `members`: by rank.
  Neighbours(const std::vector<ProcessInfo>& members, std::uint32_t rank);

  bool any() const { return !groups_.empty(); }  // some server has several ranks
  // All ranks of the communicator are here.
  bool all_here() const { return groups_.size() == 1 && groups_[0].ranks.size() == size_; }
  // Ranks of this server in order; empty when there is only this one.
  const std::vector<std::uint32_t>& here() const;
  std::size_t tickets_bytes() const { return groups_.size() * Arena::Ticket::kWireSize; }  // of all servers

  // What the letters of gathering.h say, in the order in which they are sent: put_… writes a letter's content, the
  // function behind it reads it at the other end.
  //
  // Makes the memory where this rank leads its server. Where that fails the server does not share.
  void offer(std::uint64_t nonce);
  void put_offer(Writer& out) const;
  bool take_offer(std::uint32_t from, Reader& in);  // rank 0; false: it can not be read
  void put_offers(Writer& out) const;
  // Maps what was offered here; its reason when it could not.
  Status map(Reader& in);
  void put_mapped(Writer& out) const;
  void take_mapped(std::uint32_t from, Reader& in);  // rank 0
  void put_verdicts(Writer& out) const;
  void settle(Reader& in);

  // Null before settle(), and where not all of here() can.
  Board* board() { return board_ ? &*board_ : nullptr; }
  PeerCopy* peer_copy() { return peer_copy_ ? &*peer_copy_ : nullptr; }

 private:
  struct Group {  // the ranks of one server, where there are several
    std::vector<std::uint32_t> ranks;
    Arena::Ticket ticket;
    std::uint8_t can = kMaps | kCopies;  // all that were heard of so far
  };
  static constexpr std::uint8_t kMaps = 1;
  static constexpr std::uint8_t kCopies = 2;
  void enter();
  std::size_t arena_bytes() const;
  Group* group_of(std::uint32_t rank);
  bool leads(std::uint32_t rank) const;

  const std::uint32_t rank_;
  const std::size_t size_;
  std::vector<Group> groups_;  // by their lowest rank
  std::size_t mine_;           // of groups_; its size: none
  std::optional<Arena> arena_;
  std::optional<PeerCopy> peer_copy_;  // at the beginning of the arena
  std::optional<Board> board_;         // behind it, where all ranks are here
};

}  // namespace r2ccl
