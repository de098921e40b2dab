#pragma once
// Messages between ranks of one server without a NIC: what is sent stays where it is, its address goes through memory
// that the ranks share, and the receiver copies it out of the sender's process, once.
//
//   sender ── (stream, tag, address, bytes, number) ─▶ receiver       into a ring between the two
//   receiver copies when a receive is posted for it, in order per stream
//   sender ◀── done(number) ── receiver
//
// A rank that lets go says so in the shared memory first; a copy that was made when its sender had let go does not
// count, because the sender's memory may have been anything by then.
//
// Ownership  The memory is the caller's, zero at first. What is sent and received stays valid until it is done, or
//            close().
// Threads    One at a time in a process. No waiting: step() looks at every ring.

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/result.h"

namespace r2ccl {

class PeerCopy final {
 public:
  struct Done {
    std::uint32_t rank;  // of the other end
    std::uint64_t token;
    std::uint64_t tag;  // the sender's
    std::uint64_t bytes;
    Status status;
  };
  // So much is copied before step() returns, beyond it only the rest of the message it is at.
  static constexpr std::uint64_t kBytesPerStep = 4 << 20;

  static std::size_t bytes_for(std::size_t ranks);
  // `here`: the ranks that share `memory`, in order. `process`: this one's, as the others can name it.
  PeerCopy(std::byte* memory, std::vector<std::uint32_t> here, std::uint32_t rank, std::uint32_t process);
  ~PeerCopy() { close(); }
  PeerCopy(const PeerCopy&) = delete;
  PeerCopy& operator=(const PeerCopy&) = delete;

  // Whether the kernel lets this rank copy out of that of `rank`, which has made its PeerCopy.
  bool reaches(std::uint32_t rank) const;
  bool has(std::uint32_t rank) const { return place_of(rank) != here_.size(); }

  void send(std::uint32_t to, std::uint64_t stream, const std::byte* data, std::uint64_t bytes, std::uint64_t tag,
            std::uint64_t token);
  void receive(std::uint32_t from, std::uint64_t stream, std::byte* data, std::uint64_t bytes, std::uint64_t token);
  // Copies what can be copied and appends what is done; true: something moved.
  bool step(std::vector<Done>& done);
  bool waits() const { return open_ > 0; }
  // Lets go: whatever still reads or writes this rank's memory afterwards has no effect.
  void close();

 private:
  static constexpr std::uint64_t kRing = 128;
  static constexpr std::uint64_t kDoneMark = UINT64_MAX;  // in place of a stream
  struct Entry {
    std::uint64_t stream;
    std::uint64_t tag;
    std::uint64_t address;
    std::uint64_t bytes;
    std::uint64_t number;
  };
  struct Ring {  // one writer, one reader
    alignas(64) std::atomic<std::uint64_t> written;
    alignas(64) std::atomic<std::uint64_t> read;
    alignas(64) Entry entries[kRing];
  };
  struct Door {  // of one rank
    alignas(64) std::atomic<std::uint32_t> process;
    std::atomic<std::uint32_t> closed;
    std::uint64_t probe;  // holds the address of itself in that process, for reaches()
  };
  struct Receive {
    std::byte* data;
    std::uint64_t bytes;
    std::uint64_t token;
  };
  struct Stream {
    std::deque<Entry> sent;
    std::deque<Receive> posted;
  };
  struct Peer {
    std::uint32_t rank = 0;
    Ring* in = nullptr;
    Ring* out = nullptr;
    Door* door = nullptr;
    std::deque<Entry> leaving;  // the ring was full
    std::map<std::uint64_t, Stream> streams;
    std::map<std::uint64_t, Done> unanswered;  // sends, by number
    std::uint64_t next_number = 0;
  };
  std::size_t place_of(std::uint32_t rank) const;
  Peer& peer(std::uint32_t rank);
  static bool put(Peer& to, const Entry& entry);
  bool flush(Peer& to) const;
  bool take(Peer& from, std::vector<Done>& done);
  bool copy(Peer& from, Stream& stream, std::vector<Done>& done, std::uint64_t& budget);

  const std::vector<std::uint32_t> here_;
  const std::size_t place_;
  Door* const doors_;
  std::vector<Peer> peers_;  // by place; one's own is not used
  std::size_t open_ = 0;     // sends and receives that are not done
  bool closed_ = false;
};

}  // namespace r2ccl
