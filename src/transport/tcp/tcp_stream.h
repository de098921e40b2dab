#pragma once
// One TCP connection as a Stream.
//
//   state      event                                                next
//   kOpening   writable, no pending error, not connected to itself  kUp
//   kOpening   pending error                                        kDown (cause of the errno)
//   kUp        read gives end of stream                             kDown (kClosed)
//   kUp        read fails                                           kDown (cause of the errno)
//   kUp        write fails                                          the same; what had arrived can still be read
//   any        close()                                              kDown (kClosed, unless a cause was known)
//
// Readiness is remembered between edges, so readable(), writable(), and a write() that can not go cost no system call.
// read() always asks the kernel, because a fence wants what has arrived since. Where an answer is likely to be there
// already (conversation.h), the stream calls itself readable without being told.
//
// A deaf stream is a dead cable seen from this end: what arrives is dropped in the kernel, nothing new is written, and
// close() says nothing to the other end; the descriptor rests in the Limbo until the NIC hears again. Bytes that the
// kernel had taken before may still leave, as packets under way do.
//
// Ownership  Owns the socket. The TcpShared is borrowed and must outlive the stream.
// Threads    The driver's, as transport/link.h says.

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "transport/stream/stream.h"
#include "transport/tcp/conversation.h"
#include "transport/tcp/poller.h"
#include "transport/tcp/socket.h"

namespace r2ccl {

// Descriptors of deaf streams that were closed: closing them for real would send a reset through the dead cable.
class Limbo final {
 public:
  static constexpr std::size_t kSizeMax = 256;  // beyond this the oldest is closed

  ~Limbo();
  void bury(NicId nic, Fd fd);
  void release(NicId nic);  // the cable is in again: the other end now gets its resets
  std::size_t size() const { return buried_.size(); }

 private:
  struct Grave {
    NicId nic;
    Fd fd;
  };
  std::deque<Grave> buried_;
};

class TcpStream;

// What all streams of a dialer share. `streams` is how the dialer finds those of a NIC that goes deaf.
struct TcpShared {
  Poller poller;
  Limbo limbo;
  std::set<TcpStream*> streams;  // all that hold a descriptor
};

class TcpStream final : public Stream, private ReadyHandler {
 public:
  static constexpr std::size_t kPartsMax = 64;  // per system call; more parts wait for the next

  // Takes a descriptor that is connecting (kOpening) or connected (kUp).
  TcpStream(TcpShared& shared, Fd fd, NicId nic, LinkState state, std::string name);
  // A connection that failed before it began.
  TcpStream(TcpShared& shared, NicId nic, Cause cause, std::string error);
  ~TcpStream() override;
  TcpStream(const TcpStream&) = delete;
  TcpStream& operator=(const TcpStream&) = delete;

  LinkState state() const override { return state_; }
  Cause cause() const override { return cause_; }
  const std::string& error() const override { return error_; }
  NicId nic() const override { return nic_; }

  Io write(std::span<const ByteView> parts) override;
  Io read(std::span<const ReadPart> parts) override;
  bool readable() const override { return readable_ && !read_over_ && fd_ && state_ != LinkState::kOpening; }
  bool writable() const override { return state_ == LinkState::kUp && writable_ && !deaf(); }

  void close(bool abortive) override;
  Progress progress(Instant now) override;
  bool deafen(bool on) override;
  void deafen_by_nic(bool on);  // the same, decided for the whole NIC

 private:
  void on_ready(std::uint32_t events) override;
  void finish_connect();
  void fall(Cause cause, std::string error);
  Io fall_with_errno(const char* doing, int error_number);
  bool deaf() const { return deaf_ || nic_deaf_; }
  bool apply_deaf(bool was_deaf);

  TcpShared& shared_;
  Fd fd_;
  Poller::Token token_ = Poller::kNoToken;
  const NicId nic_;
  LinkState state_;
  Cause cause_ = Cause::kNone;
  std::string name_;  // "127.0.0.1:5000", for sentences
  std::string error_;
  bool readable_ = false;
  bool read_over_ = false;  // end of stream or a read error: nothing more will come
  bool writable_ = false;
  Conversation conversation_;
  bool hung_up_ = false;  // the kernel announced an end or an error: a short read is not the last one
  bool deaf_ = false;
  bool nic_deaf_ = false;
  Progress last_progress_;  // progress() answers this once the descriptor is gone
};

}  // namespace r2ccl
