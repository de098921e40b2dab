#pragma once
// The sending half of a session: messages wait for credit, are cut into chunks, and every chunk is kept until the
// other end has said that it is in. Knows nothing of links: it is told where copies went and which of them died.
//
//   event      when                               what follows
//   cut        a message may go, a path has room  the chunk gets a number; every transmission of it is a copy
//   receipt    the chunk's number is in           its copies are forgotten; a message is free with its last chunk
//   copy lost  fence, RESEND                      with the last copy, the chunk queues for another transmission
//   aborted    its group ended                    the chunk becomes void: only its number is delivered
//
// Threads    The session's driver alone.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/fifo.h"
#include "base/id.h"
#include "base/interval_set.h"
#include "base/result.h"
#include "session/limits.h"
#include "session/rules.h"
#include "session/streams/owned_region.h"
#include "session/wire/wire.h"
#include "transport/link.h"

namespace r2ccl {

struct Completion {
  std::uint64_t token = 0;
  GroupId group;
  StreamId stream;
  std::uint64_t sequence = 0;
  std::uint64_t tag = 0;
  std::size_t length = 0;  // bytes actually sent or received
  Status status;
};

struct StreamKey {
  GroupId group;
  StreamId stream;
  friend auto operator<=>(StreamKey, StreamKey) = default;
};

// Why a chunk goes out.
enum class SendReason : std::uint8_t { kFirst, kReplay, kResend, kHedge };

// One transmission of a chunk that may still land.
struct Copy {
  PathId path;
  Epoch epoch;
  std::uint16_t number = 0;
  std::uint32_t bytes = 0;
  Ticket ticket = 0;
};

struct OutChunk {
  ChunkId id;
  StreamKey key;
  std::uint64_t sequence = 0;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint8_t flags = 0;  // DataBody::Flags
  std::uint16_t copies_made = 0;
  bool receipted = false;
  bool queued = false;  // waits in the resend queue
  SendReason queued_for = SendReason::kFirst;
  std::vector<Copy> copies;
};

class Outbox final {
 public:
  Outbox(const SessionLimits& limits, const Rules& rules) : limits_(limits), rules_(rules) {}

  // ---- the application's side ----
  void open_group(GroupId group) { groups_.try_emplace(group, false); }
  Result<std::uint64_t> send(StreamKey key, MemoryRef memory, std::uint64_t tag, std::uint64_t token,
                             std::optional<NicId> nic = {});
  // Ends every stream of the group; pending sends complete with `error`. Returns the copies whose memory must not be
  // read any more. The caller reports those that never went out with on_copy_lost().
  struct CopyOut {
    ChunkId chunk;
    Copy copy;
  };
  struct Ended {
    std::vector<CopyOut> copies;
    // The session's own memory that those copies read. Keep it until their links were told to forget them.
    std::vector<std::unique_ptr<OwnedRegion>> memory;
  };
  Ended end_group(GroupId group, const Error& error);
  void fail_all(const Error& error);
  std::vector<Completion>& completions() { return done_; }           // the caller empties it
  bool idle() const { return chunks_.empty() && unfinished_ == 0; }  // everything sent and receipted

  // ---- what the peer says ----
  void on_group_joined(GroupId group);
  bool on_credit(const CreditEntry& credit);  // false: more credit than a peer may give
  void on_eager_grant(std::uint64_t bytes) { eager_granted_ = std::max(eager_granted_, bytes); }
  void on_eager_released(std::uint64_t cumulative);
  // False: it acknowledges what was never sent. Otherwise `forgotten` gets every copy that was still out.
  struct Receipted {
    Copy copy;
    bool only_copy = false;  // the receipt certainly speaks of this copy
  };
  bool on_receipt(const IntervalSet& have, std::vector<Receipted>& forgotten);
  // A copy did not land; if it was the last, the chunk is sent again. Returns the copy if it was still under way.
  std::optional<Copy> on_copy_lost(const CopyName& name);
  // Every copy on that path up to that epoch is lost. The caller first applies the receipt that came with the fence.
  void on_path_fenced(PathId path, Epoch epoch);
  // The oldest chunk with a copy there: what a hedge repeats elsewhere.
  std::optional<ChunkId> oldest_on(PathId path, Epoch epoch) const;

  // ---- transmission ----
  bool has_next() const { return !resend_.empty() || !ready_.empty(); }  // false: next_length() has nothing
  // Bytes of the next transmission, if any may go now: resends first, then new chunks, stream by stream in turn. A
  // message that begins now is cut to use `paths` paths, into chunks of at most `chunk_max`.
  std::optional<std::uint32_t> next_length(std::size_t paths, std::uint64_t chunk_max);
  // The NIC by which that transmission is to leave; none: any.
  std::optional<NicId> next_nic() const { return next_nic_; }
  // That transmission can not leave yet, so the next stream has its turn. At most `ready()` times in a row.
  void skip_next();
  std::size_t ready() const { return ready_.size(); }
  // The chunk for that transmission; a new one gets its number here.
  OutChunk& take_next(SendReason& reason);
  OutChunk* find(ChunkId id);
  // The body and the payload of one more copy of the chunk; sent() remembers the copy once it was posted.
  DataBody describe(const OutChunk& chunk) const;
  MemoryRef payload(const OutChunk& chunk) const;
  void sent(OutChunk& chunk, const Copy& copy);
  // The transmission could not be posted after all; it is first in line again.
  void put_back(OutChunk& chunk, SendReason reason);
  ChunkId next_number() const { return {next_chunk_}; }
  const IntervalSet& receipts() const { return receipts_; }

 private:
  struct Message {
    std::uint64_t token = 0;
    std::uint64_t tag = 0;
    MemoryRef memory;
    std::uint64_t cut = 0;        // bytes that are in chunks
    std::uint64_t receipted = 0;  // bytes that the other end has
    std::uint32_t chunk_bytes = 0;
    std::uint8_t flags = 0;
    std::optional<NicId> nic;
    bool started = false;
    bool cut_all = false;
    bool completed = false;  // told the application
    bool finished = false;   // all receipted
    std::unique_ptr<OwnedRegion> copy;
  };
  struct Stream {
    Fifo<Message> messages;
    std::uint64_t first_sequence = 0;  // belongs to messages.front()
    std::uint64_t next_cut = 0;        // sequence of the message being cut
    std::map<std::uint64_t, CreditEntry> credits;
    bool ready = false;  // queued in ready_
    bool eager_waiting = false;
  };

  bool may_send(StreamKey key, Stream& stream);
  void make_ready(StreamKey key, Stream& stream);
  static std::uint64_t eager_cost(std::uint64_t length, std::uint64_t chunk_bytes);
  void start(Stream& stream, Message& message);
  void complete(StreamKey key, std::uint64_t sequence, Message& message, Status status);
  void receipt_one(OutChunk& chunk, std::vector<Receipted>& forgotten);
  void enqueue(OutChunk& chunk, SendReason reason);
  void pop_finished();
  bool keep_copy(Message& message);

  const SessionLimits& limits_;
  const Rules& rules_;
  std::map<StreamKey, Stream> streams_;
  std::map<GroupId, bool> groups_;  // known here; true: the peer has proven it too
  std::deque<StreamKey> ready_;
  Fifo<OutChunk> chunks_;  // numbers chunks_.front().id ... next_chunk_ - 1
  std::deque<ChunkId> resend_;
  std::uint64_t next_chunk_ = 1;
  IntervalSet receipts_;
  std::uint64_t eager_granted_ = 0, eager_used_ = 0, eager_released_ = 0;
  std::size_t copied_bytes_ = 0;
  std::size_t unfinished_ = 0;  // messages accepted and not yet all receipted
  std::size_t paths_ = 1;
  std::optional<NicId> next_nic_;
  std::uint64_t chunk_max_ = 0;
  std::vector<std::unique_ptr<OwnedRegion>> spare_;
  std::vector<std::vector<Copy>> spare_copies_;  // empty; only their memory counts
  std::vector<Completion> done_;
};

// How much of the grant an eager chunk uses: its bytes and a share for bookkeeping.
inline std::uint64_t eager_charge(std::uint64_t length) {
  return length + 128;
}

}  // namespace r2ccl
