#pragma once
// The contract between what moves bytes and what decides about them.
//
// A Link carries frames between one NIC here and one NIC there. It knows nothing of messages, receipts or repair;
// those belong to session/. A Provider makes links and reports what happens to NICs. StreamProvider (transport/stream)
// makes links of any byte streams: TCP's (transport/tcp) or the simulator's (sim/net). FaultProvider (transport/fault)
// decorates any provider.
//
// Threads    One thread at a time calls into a provider and all links it made. No method blocks or sleeps.
// Time       A link has no time-outs once it is up; deadlines belong to session/ and health/, which are given `now`.
//            Opening (connect and handshake) is bounded by the provider, see StreamLimits.
// Memory     The caller keeps a frame's payload readable until the frame is sent or forget() returns.
// Failure    A broken connection makes its link kDown, with a cause and a sentence. It never comes back: whoever wants
//            the path again connects a new link.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "topology/nic.h"
#include "topology/path_state.h"

namespace r2ccl {

// Memory that a link may read or write. A region knows whether the host can address it.
// Only links, devices and the region itself touch its bytes.
class Region {
 public:
  virtual ~Region() = default;
  virtual std::byte* host() = 0;  // nullptr: not addressable by the processor; use read() and write()
  virtual std::size_t size() const = 0;
  virtual void read(std::size_t offset, std::span<std::byte> out) = 0;
  virtual void write(std::size_t offset, ByteView in) = 0;
};

// Plain host memory, owned by the caller.
class HostRegion final : public Region {
 public:
  HostRegion(void* data, std::size_t size) : data_(static_cast<std::byte*>(data)), size_(size) {}
  std::byte* host() override { return data_; }
  std::size_t size() const override { return size_; }
  void read(std::size_t offset, std::span<std::byte> out) override {
    std::memcpy(out.data(), data_ + offset, out.size());
  }
  void write(std::size_t offset, ByteView in) override { std::memcpy(data_ + offset, in.data(), in.size()); }

 private:
  std::byte* data_;
  std::size_t size_;
};

struct MemoryRef {
  Region* region = nullptr;
  std::size_t offset = 0;
  std::size_t length = 0;

  MemoryRef slice(std::size_t from, std::size_t count) const { return {region, offset + from, count}; }
};

// ---- frames -------------------------------------------------------------------------------------------------

// The head of every frame; transport/stream/frame.h has its layout on the wire.
struct FrameHeader {
  std::uint8_t type = 0;  // FrameType in session/wire/wire.h or ControlFrame in control/control_wire.h
  PathId path;
  Epoch epoch;
  std::uint32_t payload_bytes = 0;
};

inline constexpr std::size_t kBodyBytesMax = 16 * 1024;           // typed fields after the header
inline constexpr std::size_t kPayloadBytesMax = 4 * 1024 * 1024;  // a chunk

struct OutFrame {
  FrameHeader header;
  ByteView body;      // copied by post()
  MemoryRef payload;  // header.payload_bytes long; read while the frame is being sent
};

using Ticket = std::uint64_t;  // Names a posted frame with payload on its link; 0 = none.

// Where a frame's payload goes: straight into `memory`, or nowhere.
struct Landing {
  std::optional<MemoryRef> memory;
};

enum class Payload : std::uint8_t { kNone, kPlaced, kDiscarded, kCorrupt };

class Link;

// Receives what a link reads. Called only from inside Link::step() and Link::drain_and_close().
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Header and body are whole and their checksum is right; `body` is valid during the call only. Asked only when
  // payload follows: where shall it land?
  virtual Landing on_header(Link& link, const FrameHeader& header, ByteView body) = 0;
  // The frame is complete. kPlaced: the payload lies where on_header() said and its checksum is right. kCorrupt: it
  // lies there and its checksum is wrong. kDiscarded: it was read and dropped (the sink said so, or discard_rest()
  // did), and not checked. kNone: the frame has no payload.
  virtual void on_frame(Link& link, const FrameHeader& header, ByteView body, Payload payload) = 0;
};

// ---- links --------------------------------------------------------------------------------------------------

enum class Purpose : std::uint8_t { kData = 1, kControl = 2, kProbe = 3 };

// What the connecting end says about itself; proven by the handshake before any frame is parsed.
struct Hello {
  Purpose purpose = Purpose::kData;
  KeyId key;
  ProcessId from;
  ProcessId to;  // 0: whoever listens there (control: the root's id is not known yet)
  PathId path;   // kData only
};

enum class LinkState : std::uint8_t { kOpening, kUp, kDown };

class Link {
 public:
  virtual ~Link() = default;

  virtual LinkState state() const = 0;
  virtual Cause cause() const = 0;               // kNone unless down
  virtual const std::string& error() const = 0;  // a sentence unless kNone
  virtual const Hello& hello() const = 0;        // the connector's, at both ends; proven once up
  virtual ProcessId peer() const = 0;            // the process at the other end; valid once up
  virtual NicId nic() const = 0;                 // the NIC at this end

  // Takes a frame for sending, in order within its kind. Frames without payload overtake frames with payload at
  // frame boundaries. kBusy when the queue of its kind is full; kPathDown when down. `ticket` names a frame with
  // payload for forget().
  virtual Result<Ticket> post(const OutFrame& frame) = 0;

  // From now on the payload of that frame is not read any more. False: the frame had not begun, so it was dropped from
  // the queue and never goes out. True: it went out whole, or is half sent; then its rest was copied, so that what
  // arrives is still right.
  virtual bool forget(Ticket ticket) = 0;
  // The payload now arriving (if any) is not written any more; its rest is read and dropped.
  virtual void discard_rest() = 0;

  // Moves bytes both ways, bounded per call. Gives complete frames to `sink`. True if anything moved. Once the link is
  // down, only drain_and_close() still delivers frames that had already arrived.
  virtual bool step(Instant now, FrameSink& sink) = 0;

  // The fence: reads what the network has already delivered, to its end (would block, end of stream or error), giving
  // complete frames to `sink`, then closes abortively. Afterwards the link is down and touches no memory.
  virtual void drain_and_close(Instant now, FrameSink& sink) = 0;
  // Sends what is queued as far as it goes without waiting, then closes in order. Touches no memory afterwards.
  virtual void close() = 0;

  virtual Progress progress(Instant now) = 0;

  // For fault injection only: arriving packets, acknowledgements included, are thrown away while on, as a dead cable
  // would. False: this kind of link can not do it.
  virtual bool deafen(bool on) = 0;
};

// ---- providers ----------------------------------------------------------------------------------------------

struct NicEvent {
  NicId nic;
  bool up;
};

class Provider {
 public:
  virtual ~Provider() = default;

  virtual std::span<const Nic> nics() const = 0;
  // Listens on the NIC at a port of the system's choice (or `port`, if not 0); returns the address to connect to.
  virtual Result<Address> listen(NicId nic, std::uint16_t port) = 0;
  // Starts a connection from the NIC. The link opens while its own step() is called, or goes down.
  virtual Result<std::unique_ptr<Link>> connect(NicId nic, const Address& remote, const Hello& hello, Instant now) = 0;
  // The next connection that came in and proved itself, if any.
  virtual std::unique_ptr<Link> accept() = 0;
  virtual std::optional<NicEvent> next_event() = 0;

  // Learns what is ready. Must be called before the links' own step(). If the turn moved, any link, connection or NIC
  // may have news. If it did not, none has any before the turn's `next`, except a link that tries to read unasked
  // (transport/tcp/conversation.h).
  virtual Turn step(Instant now) = 0;
};

}  // namespace r2ccl
