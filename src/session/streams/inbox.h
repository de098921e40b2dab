#pragma once
// The receiving half of a session: posted receives, what has arrived, and what the other end must be told. Knows
// nothing of links: it says where a chunk lands and is told when it is in.
//
// Payload lands straight in the posted buffer. A small message that came before its receive (an eager one) waits in
// memory of ours; its sender was granted so many bytes beforehand. A chunk counts as in when it was placed whole and
// its checksum was right; a message is handed over once.
//
// Threads    The session's driver alone.
// Failure    A peer that breaks the rules gets kRefuse: the session fences the path that brought it.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/fifo.h"
#include "base/id.h"
#include "base/interval_set.h"
#include "session/limits.h"
#include "session/rules.h"
#include "session/streams/outbox.h"
#include "session/streams/owned_region.h"
#include "session/wire/wire.h"
#include "transport/link.h"

namespace r2ccl {

// With SessionLimits::hand_over_early: a whole message that came before its receive, handed over with its memory.
// It counts as received, so the next receive of its stream takes the message behind it. It counts against the sender's
// grant until it is given back.
struct EarlyMessage {
  StreamKey key;
  std::uint64_t tag = 0;
  std::size_t length = 0;
  std::unique_ptr<OwnedRegion> memory;
  std::uint64_t charge = 0;

  ByteView bytes() const { return memory->bytes().first(length); }
};

class Inbox final {
 public:
  Inbox(const SessionLimits& limits, const Rules& rules) : limits_(limits), rules_(rules) {}

  // ---- the application's side ----
  void open_group(GroupId group) { groups_.insert(group); }
  Result<std::uint64_t> receive(StreamKey key, MemoryRef memory, std::uint64_t tag, std::uint64_t token);
  // Pending receives complete with `error`; the caller has stopped landings into their memory first.
  void end_group(GroupId group, const Error& error);
  void fail_all(const Error& error);
  std::vector<Completion>& completions() { return done_; }  // the caller empties it
  std::vector<EarlyMessage>& early() { return early_; }     // the caller empties it, and gives each back later
  void give_back(EarlyMessage message);
  bool has_group(GroupId group) const { return groups_.contains(group); }

  // ---- arriving chunks ----
  enum class Ask : std::uint8_t {
    kLand,       // read it into the memory named
    kDuplicate,  // it is in already: drop
    kDrop,       // its stream has ended: drop, but count it as in
    kRefuse,     // no correct peer sends this: fence the path
  };
  struct Place {
    Ask ask = Ask::kRefuse;
    MemoryRef memory;
  };
  Place place(const DataBody& body, std::uint32_t payload_bytes);
  // The chunk is whole. False: it was in already.
  bool on_chunk(const DataBody& body, std::uint32_t payload_bytes);
  // A copy did not land, and no other has. The sender is told, and told again after every fence until the chunk is in.
  void on_copy_failed(const DataBody& body);

  // ---- what the other end must be told ----
  const IntervalSet& have() const { return have_; }
  std::uint64_t eager_released() const { return eager_released_; }
  // Credit for small messages can wait a little: they may travel without it, and most have by then.
  bool has_new_credits() const { return !new_credits_.empty(); }
  bool credit_urgent() const { return credit_urgent_; }
  bool urgent() const { return credit_urgent_ || urgent_ || !new_failures_.empty(); }  // any of it must leave now
  std::vector<CreditEntry> take_new_credits();
  std::vector<CreditEntry> all_credits() const;  // one for every receive whose message has not begun to arrive
  std::vector<CopyName> failed_copies() const;
  std::vector<CopyName> take_new_failures() { return std::exchange(new_failures_, {}); }
  // Chunks that came in since the last receipt, and whether a sender waits for one of them.
  std::size_t unreceipted() const { return unreceipted_; }
  bool receipt_urgent() const { return urgent_; }
  void on_receipt_sent() {
    unreceipted_ = unreceipted_bytes_ = 0;
    urgent_ = false;
  }

 private:
  struct Message {
    std::uint64_t token = 0;
    std::uint64_t tag = 0;  // the sender's, once known
    MemoryRef memory;
    std::uint64_t total = 0;
    std::uint64_t received = 0;
    std::uint64_t eager_charged = 0;
    bool posted = false;
    bool begun = false;  // total is known
    bool oversize = false;
    bool delivered = false;
    std::unique_ptr<OwnedRegion> eager;
  };
  struct Stream {
    Fifo<Message> messages;
    std::uint64_t first_sequence = 0;
    std::uint64_t posted = 0;  // sequence of the next receive
  };

  Message* message_for(Stream& stream, std::uint64_t sequence);
  bool begin(Message& message, const DataBody& body);
  // Memory for large eager messages has one size, eager_message_max, and is used again, because fresh memory from the
  // system costs more than the copy. Only messages of at least a quarter of that size take it: none holds more than
  // four times the bytes it is charged for.
  bool reuses_room(std::uint64_t bytes) const { return bytes >= limits_.eager_message_max / 4; }
  std::unique_ptr<OwnedRegion> room_for(std::uint64_t bytes);
  void finish_if_whole(StreamKey key, Stream& stream, std::uint64_t sequence);
  void hand_over(StreamKey key, Stream& stream);
  static void forget_delivered(Stream& stream);
  void keep_room(std::unique_ptr<OwnedRegion> room, std::uint64_t bytes);
  void release_eager(std::uint64_t bytes);

  const SessionLimits& limits_;
  const Rules& rules_;
  std::set<GroupId> groups_;
  std::map<StreamKey, Stream> streams_;
  IntervalSet have_;
  std::set<std::pair<ChunkId, std::uint16_t>> failed_;  // copies that did not land
  std::vector<CopyName> new_failures_;
  std::vector<CreditEntry> new_credits_;
  bool credit_urgent_ = false;
  std::uint64_t eager_released_ = 0;
  std::uint64_t eager_held_ = 0;
  std::size_t unreceipted_ = 0;
  std::uint64_t unreceipted_bytes_ = 0;
  bool urgent_ = false;
  std::vector<std::unique_ptr<OwnedRegion>> spare_;  // eager_message_max bytes each
  std::vector<Completion> done_;
  std::vector<EarlyMessage> early_;
};

}  // namespace r2ccl
