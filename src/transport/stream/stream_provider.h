#pragma once
// A Provider over any Dialer: frames and the keyed handshake on byte streams.
//
// Anybody may connect, so an inbound connection is a stranger until its handshake is proven. Strangers are bounded in
// number, in time and in failures per second (StreamLimits), and nobody sees them: accept() returns proven links only.
//
// Threads    As transport/link.h says.
// Failure    A connection that fails its handshake is closed and counted; nobody is told. One that we began goes down
//            with a cause.

#include <deque>
#include <memory>

#include "env/env.h"
#include "transport/link.h"
#include "transport/stream/keyring.h"
#include "transport/stream/stream.h"
#include "transport/stream/stream_limits.h"

namespace r2ccl {

struct StreamCounters {
  std::uint64_t accepted = 0;  // inbound connections whose handshake began
  std::uint64_t proven = 0;
  std::uint64_t unproven = 0;           // failed proof, garbage, truncated or timed-out handshakes
  std::uint64_t half_open_dropped = 0;  // the oldest, to make room
  std::uint64_t rate_limited = 0;       // closed unread
};

class StreamProvider final : public Provider {
 public:
  // Everything is borrowed and must outlive the provider and its links.
  StreamProvider(Dialer& dialer, Keyring& keyring, Random& random, ProcessId self, const StreamLimits& limits);
  ~StreamProvider() override;

  std::span<const Nic> nics() const override;
  Result<Address> listen(NicId nic, std::uint16_t port) override;
  // Fills in `hello.from`. kMisuse when `hello.key` is not in the keyring.
  Result<std::unique_ptr<Link>> connect(NicId nic, const Address& remote, const Hello& hello, Instant now) override;
  std::unique_ptr<Link> accept() override;
  std::optional<NicEvent> next_event() override;
  Turn step(Instant now) override;

  const StreamCounters& counters() const { return counters_; }
  std::size_t half_open() const { return half_open_.size(); }

 private:
  struct HalfOpen;

  bool take_inbound(Instant now);
  bool has_room(Instant now) const;
  void begin_inbound(std::unique_ptr<Stream> stream, Instant now);
  bool step_half_open(Instant now);
  void count_unproven(Instant now);
  bool too_many_unproven(Instant now);
  Instant next_deadline(Instant now);

  Dialer& dialer_;
  Keyring& keyring_;
  Random& random_;
  const ProcessId self_;
  const StreamLimits limits_;
  StreamCounters counters_;
  std::deque<std::unique_ptr<HalfOpen>> half_open_;  // oldest first
  std::deque<std::unique_ptr<Link>> ready_;
  std::deque<Instant> connect_deadlines_;  // one per connect() of the last open_timeout; earliest first
  Instant second_began_{};
  std::size_t unproven_this_second_ = 0;
};

}  // namespace r2ccl
