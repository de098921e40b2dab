#include "sim/net/wires/sim_connection.h"

#include <algorithm>

#include "base/assert.h"
#include "sim/net/wires/sim_dialer.h"

namespace r2ccl::sim {

namespace {
constexpr Duration kSynRetryFirst = 1s;
constexpr int kSynTriesMax = 4;
constexpr std::size_t kHeaderPartBytesMax = 200;  // longer parts of a write are payload
constexpr Duration kRestMax = 40us;
}  // namespace

Connection::Connection(Network& network, SimDialer& from, NicRef from_nic, const Address& to, NicRef to_nic)
    : network_(network),
      target_(to),
      pipes_{{*this, 0, from_nic, to_nic, network.config()}, {*this, 1, to_nic, from_nic, network.config()}} {
  network_.world().enrol(*this);
  ends_[0].dialer = &from;
  ends_[0].exists = true;
  on_event(kSynRetry, 0);
}

// ---- opening ----

void Connection::on_bare(int side, const Segment& segment) {
  End& end = ends_[side];
  if ((segment.flags & kFlagReset) != 0) {
    if (end.closed) pipes_[side].stop_sending();
    if (!end.exists || end.closed || end.state == LinkState::kDown) return;
    const bool refused = end.state == LinkState::kOpening;
    fail_end(side, refused ? Cause::kRefused : Cause::kReset,
             refused ? "connection refused by " + to_text(target_) : "connection reset by the other end");
    return;
  }
  if ((segment.flags & kFlagSyn) != 0) {
    syn_arrives();
    return;
  }
  if (end.closed || end.state == LinkState::kDown) return refuse_packet(side);
  if (end.state == LinkState::kUp) return;
  end.state = LinkState::kUp;
  pipes_[side].open_window();
  wake(side);
}

void Connection::syn_arrives() {
  End& end = ends_[1];
  if (!end.exists) {
    SimDialer* dialer = network_.listener(target_);
    if (dialer == nullptr) {
      pipes_[1].send_bare(kFlagReset);
      return;
    }
    if (!dialer->offer(*this)) return;  // the backlog is full: the connector tries again
    end.exists = true;
    end.dialer = dialer;
    end.state = LinkState::kUp;
    pipes_[1].open_window();
    wake(1);
  }
  if (accepts_packets(1)) {
    pipes_[1].send_bare(kFlagSynAck);
  } else {
    pipes_[1].send_bare(kFlagReset);
  }
}

// ---- programs ----

bool Connection::readable(int side) const {
  const End& end = ends_[side];
  if (end.closed || end.state == LinkState::kOpening) return false;
  const Pipe& in = pipes_[1 - side];
  return in.available() > 0 || in.ended() || end.state == LinkState::kDown;
}

bool Connection::writable(int side) const {
  const End& end = ends_[side];
  if (end.closed || end.state == LinkState::kOpening) return false;
  return end.state == LinkState::kDown || (!end.resting && pipes_[side].room() > 0);
}

Io Connection::write(int side, std::span<const ByteView> parts) {
  End& end = ends_[side];
  R2CCL_ASSERT(!end.closed, "write on a closed stream");
  if (end.state == LinkState::kOpening) return {.would_block = true};
  if (end.state == LinkState::kDown) return {.cause = end.cause};
  std::size_t asked = 0;
  for (const ByteView part : parts) asked += part.size();
  if (asked == 0) return {};
  Pipe& out = pipes_[side];
  std::size_t allowed = end.resting ? 0 : std::min(out.room(), asked);
  SimRandom& random = network_.world().random();
  if (network_.config().split_writes && allowed > 1 && random.chance(0.2)) {
    allowed = random.between(1, allowed);
    end.resting = true;
    network_.world().after(random.between(1us, kRestMax), *this, kRested0 + static_cast<std::uint32_t>(side));
  }
  const std::uint64_t from = out.written();
  std::size_t left = allowed;
  for (const ByteView part : parts) {
    const std::size_t count = std::min(left, part.size());
    out.append(part.first(count));
    left -= count;
  }
  maybe_corrupt(side, from, parts);
  network_.request_transmit(out);
  end.blocked = allowed < asked;
  return {.bytes = allowed, .would_block = allowed < asked};
}

Io Connection::read(int side, std::span<const ReadPart> parts) {
  End& end = ends_[side];
  R2CCL_ASSERT(!end.closed, "read on a closed stream");
  if (end.state == LinkState::kOpening) return {.would_block = true};
  Pipe& in = pipes_[1 - side];
  std::size_t asked = 0;
  for (const ReadPart& part : parts) asked += part.size;
  std::size_t allowed = std::min(in.available(), asked);
  if (allowed == 0) {
    if (asked == 0) return {};
    if (in.ended()) return {.cause = Cause::kClosed};
    if (end.state == LinkState::kDown) return {.cause = end.cause};
    return {.would_block = true};
  }
  const bool all = allowed < asked;
  SimRandom& random = network_.world().random();
  const bool split = network_.config().split_reads && random.chance(0.25);
  if (split) allowed = random.between(1, allowed);
  std::size_t left = allowed;
  for (const ReadPart& part : parts) {
    const std::size_t count = std::min(left, part.size);
    if (count > 0) in.take(part.data, count);
    left -= count;
  }
  in.window_may_have_opened();
  return {.bytes = allowed, .would_block = all && in.available() == 0 && !in.ended() && end.state == LinkState::kUp};
}

void Connection::close(int side, bool abortive) {
  End& end = ends_[side];
  if (end.closed) return;
  const bool unread = pipes_[1 - side].available() > 0;
  const bool was_up = end.state == LinkState::kUp;
  end.closed = true;
  end.blocked = false;
  if (end.state != LinkState::kDown) {
    end.state = LinkState::kDown;
    end.cause = Cause::kClosed;
    end.error = "closed by this end";
  }
  if (!was_up) {
    pipes_[side].stop_sending();
  } else if (abortive || unread) {  // As the kernel does: unread bytes turn a close into a reset.
    pipes_[side].stop_sending();
    pipes_[side].send_bare(kFlagReset);
  } else {
    pipes_[side].finish();
    network_.request_transmit(pipes_[side]);
  }
}

void Connection::maybe_corrupt(int side, std::uint64_t from, std::span<const ByteView> parts) {
  SimNicState& state = network_.nic(nic(side));
  if (!state.corrupt_header && !state.corrupt_payload) return;
  SimRandom& random = network_.world().random();
  std::uint64_t at = from;
  const std::uint64_t end = pipes_[side].written();
  for (const ByteView part : parts) {
    const std::uint64_t part_end = std::min(end, at + part.size());
    const bool payload = part.size() > kHeaderPartBytesMax;
    bool& wanted = payload ? state.corrupt_payload : state.corrupt_header;
    if (wanted && part_end > at) {
      pipes_[side].flip_bit(random.between(at, part_end - 1), static_cast<int>(random.below(8)));
      wanted = false;
    }
    at = part_end;
  }
}

// ---- faults and events ----

void Connection::cut(Duration notice_0, Duration notice_1, bool late_prefix) {
  if (severed_) return;
  severed_ = true;
  SimWorld& world = network_.world();
  const Duration notices[2] = {notice_0, notice_1};
  for (int side : {0, 1}) {
    const std::size_t keep = late_prefix ? world.random().below(4) : 0;
    const Duration held = late_prefix ? world.random().between(0us, 3ms) : Duration{};
    pipes_[side].lose_suffix(keep, world.now() + held);
    if (notices[side] != Network::kNeverNotices) {
      world.after(notices[side], *this, kNotice0 + static_cast<std::uint32_t>(side));
    }
  }
}

bool Connection::accepts_packets(int side) const {
  // A closed end whose last bytes are still on their way takes acknowledgements but no data.
  return ends_[side].exists && !ends_[side].closed && ends_[side].state == LinkState::kUp;
}

void Connection::refuse_packet(int side) {
  if (severed_ || !ends_[side].exists) return;
  pipes_[side].send_bare(kFlagReset);
}

void Connection::wake(int side) {
  End& end = ends_[side];
  if (end.dialer != nullptr && !end.closed) end.dialer->notice();
}

void Connection::fail_end(int side, Cause cause, std::string why) {
  End& end = ends_[side];
  if (end.state == LinkState::kDown || !end.exists) return;
  end.state = LinkState::kDown;
  end.cause = cause;
  end.error = std::move(why);
  pipes_[side].stop_sending();
  wake(side);
}

void Connection::on_room(int side) {
  End& end = ends_[side];
  if (!end.blocked || end.resting) return;
  end.blocked = false;
  wake(side);
}

void Connection::on_event(std::uint32_t kind, std::uint32_t) {
  switch (static_cast<Kind>(kind)) {
    case kSegment0:
      return pipes_[0].segment_arrives();
    case kSegment1:
      return pipes_[1].segment_arrives();
    case kAck0:
      return pipes_[0].acknowledgement_arrives();
    case kAck1:
      return pipes_[1].acknowledgement_arrives();
    case kTimer0:
      return pipes_[0].timer_fires();
    case kTimer1:
      return pipes_[1].timer_fires();
    case kNotice0:
    case kNotice1:
      return fail_end(static_cast<int>(kind - kNotice0), Cause::kReset, "connection reset by the network");
    case kRested0:
    case kRested1: {
      const int side = static_cast<int>(kind - kRested0);
      ends_[side].resting = false;
      if (pipes_[side].room() > 0) on_room(side);
      return;
    }
    case kSynRetry:
      if (ends_[0].closed || ends_[0].state != LinkState::kOpening) return;
      if (syn_tries_ == kSynTriesMax) return fail_end(0, Cause::kTimeout, "no answer from " + to_text(target_));
      pipes_[0].send_bare(kFlagSyn);
      network_.world().after(kSynRetryFirst * (1 << syn_tries_++), *this, kSynRetry);
      return;
  }
}

}  // namespace r2ccl::sim
