#pragma once
// Byte streams: what TCP and the simulator have to offer. StreamProvider (stream_provider.h) turns a Dialer into a
// Provider by adding framing and the keyed handshake, so both run the same code above this line.

#include <memory>
#include <optional>
#include <span>

#include "transport/link.h"

namespace r2ccl {

struct Io {
  std::size_t bytes = 0;
  bool would_block = false;    // fewer bytes than asked for because there is no room / nothing there now
  Cause cause = Cause::kNone;  // not kNone: the stream is over; kClosed = orderly end of stream (reads only)
};

struct ReadPart {
  std::byte* data;
  std::size_t size;
};

class Stream {
 public:
  virtual ~Stream() = default;
  // kOpening until the connection stands; then kUp; kDown after any error.
  virtual LinkState state() const = 0;
  virtual Cause cause() const = 0;
  virtual const std::string& error() const = 0;
  virtual NicId nic() const = 0;

  virtual Io write(std::span<const ByteView> parts) = 0;
  virtual Io read(std::span<const ReadPart> parts) = 0;
  virtual bool readable() const = 0;  // read() may give something; makes no system call
  virtual bool writable() const = 0;

  virtual void close(bool abortive) = 0;       // abortive: reset, nothing lingers
  virtual Progress progress(Instant now) = 0;  // queued_bytes: bytes accepted by write() but not yet on the wire
  virtual bool deafen(bool on) = 0;            // see Link::deafen
};

class Dialer {
 public:
  virtual ~Dialer() = default;
  virtual std::span<const Nic> nics() const = 0;
  virtual Result<Address> listen(NicId nic, std::uint16_t port) = 0;
  virtual Result<std::unique_ptr<Stream>> connect(NicId nic, const Address& remote) = 0;
  virtual std::unique_ptr<Stream> accept() = 0;  // next raw inbound connection, or null
  virtual std::optional<NicEvent> next_event() = 0;
  virtual bool step(Instant now) = 0;  // learns readiness; true if something became ready
};

}  // namespace r2ccl
