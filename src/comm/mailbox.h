#pragma once
// A communicator's messages on the sessions of its engine. It knows which process a rank is, which stream carries what,
// and to whom a completion belongs. Ranks of one server exchange data through PeerCopy where they can.
//
// Ownership  Borrows the engine. Memory of letters is its own; that of data is the caller's.
// Threads    The communicator's.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "comm/server/peer_copy.h"
#include "control/unique_id.h"
#include "executor/courier.h"
#include "runtime/engine.h"

namespace r2ccl {

class Mailbox final : public Courier {
 public:
  // Sessions that messages may open in one turn: one takes 10 to 20 us, and a call may be with a thousand ranks.
  static constexpr std::uint32_t kOpenedPerTurn = 64;

  // What a token of a completion is about.
  enum class Kind : std::uint8_t { kCollective = 1, kPoint, kLetterIn, kLetterOut };
  struct Done {
    Kind kind;
    std::uint64_t token;  // as given; the rank for letters
    std::uint32_t rank;   // of the other end
    std::uint64_t tag;    // the sender's
    std::size_t bytes;
    const Status& status;
  };
  struct LetterIn {
    std::uint32_t from;
    Bytes bytes;
    Status next;  // of the wait for the next one
  };

  Mailbox(Engine& engine, GroupId group, const Secret& secret, std::uint32_t rank)
      : engine_(engine), group_(group), secret_(secret), rank_(rank) {}

  // Called once the members are known, by rank. Rank 0 hears letters of all, the others those of rank 0.
  void open(const std::vector<ProcessInfo>& members, std::size_t letter_bytes_max);
  // Waits for letters of some more members. Call it once a turn until hears_all().
  Status listen();
  bool hears_all() const { return heard_ == members_.size(); }
  std::uint32_t rank_of(ProcessId process) const;  // UINT32_MAX: none
  const std::vector<ProcessInfo>& members() const { return members_; }
  std::string name_of(std::uint32_t rank) const;  // "rank 3 (host)"
  // Sessions know other processes by the rank they had when they first met.
  std::string name_in(const std::string& what, std::uint32_t rank) const;

  // From now on data to and from the ranks that `peer_copy` has goes through it; letters stay on the sessions. It must
  // outlive the mailbox's use of it.
  void share(PeerCopy& peer_copy) { peer_copy_ = &peer_copy; }
  // What neighbours have done since; true: something moved.
  bool step_neighbours(FunctionRef<void(const Done&)> on_done);
  bool waits_for_neighbours() const { return peer_copy_ != nullptr && peer_copy_->waits(); }

  // A turn begins: messages to ranks without a session may open some again, beyond which they are refused as busy.
  void begin_turn() { may_open_ = kOpenedPerTurn; }

  // A collective begins, whose messages are marked with `tag`. `keeps_rails`: they leave by the NIC of their lane, or
  // the next one that is alive; else by whichever will be done first.
  void begin(std::uint64_t tag, bool keeps_rails) {
    tag_ = tag;
    keeps_rails_ = keeps_rails;
  }
  Status send(std::uint32_t to, std::uint32_t channel, std::optional<NicId> nic, MemoryRef memory,
              std::uint64_t token) override;
  Status receive(std::uint32_t from, std::uint32_t channel, MemoryRef memory, std::uint64_t token) override;
  Status send_point(std::uint32_t to, MemoryRef memory, std::uint64_t token);
  Status receive_point(std::uint32_t from, MemoryRef memory, std::uint64_t token);
  Status send_letter(std::uint32_t to, Bytes bytes);
  void notify(std::uint32_t to, ByteView bytes);
  void notify_all(ByteView bytes);

  // What the completion is about; none where it is not of this communicator.
  std::optional<Done> sort(ProcessId peer, const Completion& completion);
  // The letter that a kLetterIn completion is about; the next one is awaited.
  LetterIn take_letter(const Done& done);

  // The paths of each session with another server that this communicator has used. Sessions inside a server are left
  // out: they work whatever its NICs do.
  std::vector<std::vector<PathView>> paths() const;
  // Nothing of this communicator reads or writes memory afterwards.
  void abort();

 private:
  struct Letters {
    explicit Letters(std::size_t bytes) : buffer(bytes), region(buffer.data(), bytes) {}
    Bytes buffer;
    HostRegion region;
  };
  struct Outgoing {
    explicit Outgoing(Bytes content) : bytes(std::move(content)), region(bytes.data(), bytes.size()) {}
    Bytes bytes;
    HostRegion region;
  };
  bool beside(std::uint32_t rank) const { return peer_copy_ != nullptr && peer_copy_->has(rank); }
  Status send(std::uint32_t to, StreamId stream, MemoryRef memory, std::uint64_t tag, std::uint64_t token,
              std::optional<NicId> nic = {});
  Status receive(std::uint32_t from, StreamId stream, MemoryRef memory, std::uint64_t tag, std::uint64_t token);
  Session& session_with(std::uint32_t rank);
  bool has_to_wait(std::uint32_t rank) const { return sessions_[rank] == nullptr && may_open_ == 0; }
  Status await_letter(std::uint32_t from);
  // The group is joined before it is used: a session that does not know it was told by the other end that it is over.
  Status refused(std::uint32_t other, const Error& error) const;

  Engine& engine_;
  const GroupId group_;
  const Secret secret_;
  const std::uint32_t rank_;
  PeerCopy* peer_copy_ = nullptr;  // null: there are no neighbours to share memory with
  std::vector<PeerCopy::Done> peer_copy_done_;
  std::uint64_t tag_ = 0;
  bool keeps_rails_ = false;
  std::vector<ProcessInfo> members_;
  std::map<ProcessId, std::uint32_t> rank_of_;
  std::vector<Session*> sessions_;  // [rank]; null until used. Sessions stay as long as the engine.
  std::uint32_t may_open_ = kOpenedPerTurn;
  std::map<std::uint32_t, std::unique_ptr<Letters>> letters_;
  std::size_t letter_bytes_max_ = 0;
  std::uint32_t heard_ = 0;  // members from rank 0 on whose letters are waited for, as far as they write any
  std::map<std::uint64_t, std::unique_ptr<Outgoing>> outgoing_;
  std::uint64_t next_outgoing_ = 0;
};

}  // namespace r2ccl
