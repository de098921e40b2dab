#pragma once
// A Link over any byte stream: the keyed handshake first, then frames. FrameReader and FrameSender do the two
// directions; this class decides when they run and when the link is down.
//
//   state      what happens                                              next
//   kOpening   the stream stands and the handshake is proven               kUp
//   kOpening   deadline, stream error, failed or refused handshake          kDown, stream closed
//   kUp        read or write error, end of stream, bad frame                kDown, stream kept for drain_and_close()
//   kUp        close(), drain_and_close()                                   kDown, stream closed
//
// Ownership  Owns its stream; frames' memory is borrowed as link.h says.
// Callbacks  A sink may post to, forget on, discard on, drain or close the very link that calls it. It must not
//            destroy it.
// Cost       A step makes no system call unless the stream says readable, or frames are queued and it says writable.

#include <memory>
#include <string>

#include "transport/link.h"
#include "transport/stream/frame_reader.h"
#include "transport/stream/frame_sender.h"
#include "transport/stream/handshake.h"
#include "transport/stream/stream.h"
#include "transport/stream/stream_limits.h"

namespace r2ccl {

class StreamLink final : public Link {
 public:
  // Opens by itself while step() is called; goes down at `deadline` if that has not succeeded.
  StreamLink(std::unique_ptr<Stream> stream, std::unique_ptr<Handshake> handshake, const StreamLimits& limits,
             Instant deadline);
  // Up at once: both ends know each other by other means.
  StreamLink(std::unique_ptr<Stream> stream, const Hello& hello, ProcessId peer, const StreamLimits& limits);
  ~StreamLink() override;  // closes abortively what is not closed yet

  LinkState state() const override { return state_; }
  Cause cause() const override { return cause_; }
  const std::string& error() const override { return error_; }
  const Hello& hello() const override { return hello_; }
  ProcessId peer() const override { return peer_; }
  NicId nic() const override { return nic_; }

  Result<Ticket> post(const OutFrame& frame) override;
  bool forget(Ticket ticket) override { return sender_.forget(ticket); }
  void discard_rest() override { reader_.discard_rest(); }
  bool step(Instant now, FrameSink& sink) override;
  void drain_and_close(Instant now, FrameSink& sink) override;
  void close() override;
  Progress progress(Instant now) override;
  bool deafen(bool on) override { return stream_->deafen(on); }

  // The opening part of step(), for whoever has no sink yet. Bytes that arrive behind the handshake are kept for
  // step().
  bool step_opening(Instant now);

 private:
  bool talk();
  void finish_opening();
  void fail_opening(Cause cause, std::string error, bool abortive);
  void go_down(Cause cause, std::string error);
  void close_stream(bool abortive);

  const StreamLimits limits_;
  const std::unique_ptr<Stream> stream_;
  std::unique_ptr<Handshake> handshake_;  // while opening
  const Instant open_deadline_;
  const NicId nic_;
  LinkState state_;
  bool draining_ = false;
  bool stream_closed_ = false;
  Cause cause_ = Cause::kNone;
  std::string error_;
  Hello hello_;
  ProcessId peer_;
  FrameSender sender_;
  FrameReader reader_;
};

}  // namespace r2ccl
