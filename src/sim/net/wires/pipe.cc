#include <algorithm>

#include "sim/net/wires/sim_connection.h"

namespace r2ccl::sim {

namespace {
constexpr Duration kRetryMin = 200ms;
constexpr Duration kRetryMax = 120s;
constexpr std::size_t kFirstWindowSegments = 10;
constexpr std::size_t kCongestionWindowMax = 1024 * 1024;
constexpr std::size_t kCompactBytes = 32 * 1024;
constexpr int kFastRetryAcks = 3;
}  // namespace

Pipe::Pipe(Connection& connection, int from_end, NicRef from, NicRef to, const NetworkConfig& config)
    : connection_(connection),
      network_(connection.network()),
      from_end_(from_end),
      from_(from),
      to_(to),
      send_buffer_(config.send_buffer),
      receive_buffer_(config.receive_buffer),
      segment_bytes_(config.segment_bytes),
      congestion_window_(kFirstWindowSegments * config.segment_bytes),
      retry_timeout_(kRetryMin) {}

// ---- the sending program ----

std::size_t Pipe::room() const {
  const auto used = static_cast<std::size_t>(written_ - acked_);
  return used >= send_buffer_ ? 0 : send_buffer_ - used;
}

void Pipe::append(ByteView bytes) {
  store_.insert(store_.end(), bytes.begin(), bytes.end());
  written_ += bytes.size();
  arm_timer();
}

void Pipe::flip_bit(std::uint64_t position, int bit) {
  store_[static_cast<std::size_t>(position - store_base_)] ^= static_cast<std::byte>(1 << bit);
}

Progress Pipe::progress(Instant now) const {
  return {.acked_bytes = acked_,
          .unacked_bytes = sent_ - acked_,
          .queued_bytes = written_ - sent_,
          .last_ack_age = now - last_heard_,
          .srtt = srtt_,
          .min_rtt = min_rtt_};
}

// ---- the receiving program ----

void Pipe::take(std::byte* out, std::size_t bytes) {
  std::memcpy(out, store_.data() + (read_ - store_base_), bytes);
  read_ += bytes;
  compact();
}

void Pipe::compact() {
  const auto dead = static_cast<std::size_t>(read_ - store_base_);
  if (dead < kCompactBytes && read_ != written_) return;
  store_.erase(store_.begin(), store_.begin() + static_cast<std::ptrdiff_t>(dead));
  store_base_ = read_;
}

// ---- sending ----

bool Pipe::wants_to_send() const {
  if (stopped_ || window_edge_ == 0) return false;
  if (probe_due_) return true;
  if (fin_wanted_ && !fin_sent_ && next_ == written_) return true;
  return next_ < written_ && next_ < window_edge_ && next_ - acked_ < congestion_window_;
}

Segment Pipe::next_segment(Instant now) {
  Segment segment{.from = next_, .sent_at = now};
  if (probe_due_) {
    probe_due_ = false;
    segment.flags = kFlagProbe;
    return segment;
  }
  const std::uint64_t limit = std::min({written_, window_edge_, acked_ + congestion_window_, next_ + segment_bytes_});
  segment.bytes = static_cast<std::uint32_t>(limit > next_ ? limit - next_ : 0);
  if (next_ < sent_) segment.flags |= kFlagAgain;
  next_ += segment.bytes;
  sent_ = std::max(sent_, next_);
  if (fin_wanted_ && next_ == written_) {
    segment.flags |= kFlagFin;
    fin_sent_ = true;
  }
  arm_timer();
  return segment;
}

void Pipe::launch(const Segment& segment, Instant departs, std::size_t wire_bytes) {
  SimWorld& world = network_.world();
  world.trace(segment.from << 8 | segment.flags);
  world.trace(segment.bytes);
  if (connection_.severed() || network_.loses(from_, to_)) return;
  SimNicState& receiver = network_.nic(to_);
  Instant arrives = departs + network_.delay(from_, to_);
  if (from_.server != to_.server && wire_bytes > 0) {
    arrives = std::max(arrives, receiver.receive_free) + Network::transfer_time(receiver, wire_bytes);
    receiver.receive_free = arrives;
  }
  last_arrival_ = std::max(last_arrival_, arrives);
  flight_.push_back(segment);
  world.at(last_arrival_, connection_, Connection::kSegment0 + static_cast<std::uint32_t>(from_end_));
}

void Pipe::send_bare(std::uint8_t flags) {
  launch({.from = sent_, .flags = flags, .sent_at = network_.world().now()}, network_.world().now(), 0);
}

void Pipe::stop_sending() {
  stopped_ = true;
  retry_deadline_ = kNever;
  network_.withdraw(*this);
}

void Pipe::lose_suffix(std::size_t keep, Instant not_before) {
  // Arrival events of what is lost find the queue shorter and do nothing.
  if (flight_.size() > keep) flight_.resize(keep);
  ack_flight_.clear();
  hold_until_ = not_before;
}

// ---- arriving ----

void Pipe::segment_arrives() {
  if (flight_.empty()) return;
  SimWorld& world = network_.world();
  if (hold_until_ > world.now()) {
    world.at(hold_until_, connection_, Connection::kSegment0 + static_cast<std::uint32_t>(from_end_));
    return;
  }
  const Segment segment = flight_.front();
  flight_.pop_front();
  const int receiver = 1 - from_end_;
  if (!connection_.severed() && network_.loses(from_, to_)) return;
  if (connection_.end(receiver).deaf) return;
  if ((segment.flags & (kFlagSyn | kFlagSynAck | kFlagReset)) != 0) {
    connection_.on_bare(receiver, segment);
    return;
  }
  if (!connection_.accepts_packets(receiver)) {
    connection_.refuse_packet(receiver);
    return;
  }
  connection_.pipe(receiver).heard_something(world.now());
  on_data(segment);
}

void Pipe::cut_at(std::uint64_t position, Duration notice_from, Duration notice_to) {
  cut_position_ = position;
  cut_notice_from_ = notice_from;
  cut_notice_to_ = notice_to;
}

void Pipe::on_data(const Segment& segment) {
  const std::uint64_t end = segment.from + segment.bytes;
  if (segment.from <= received_ && end >= cut_position_ && received_ < cut_position_) {
    received_ = cut_position_;
    connection_.wake(1 - from_end_);
    const bool first = from_end_ == 0;
    return connection_.cut(first ? cut_notice_from_ : cut_notice_to_, first ? cut_notice_to_ : cut_notice_from_, false);
  }
  bool news = false;
  if (segment.from <= received_ && end > received_) {
    received_ = end;
    news = true;
  }
  if ((segment.flags & kFlagFin) != 0 && end == received_ && !fin_received_) {
    fin_received_ = true;
    news = true;
  }
  send_acknowledgement((segment.flags & (kFlagAgain | kFlagProbe)) == 0 ? segment.sent_at : Instant{});
  if (news) connection_.wake(1 - from_end_);
}

void Pipe::send_acknowledgement(Instant echo) {
  SimWorld& world = network_.world();
  advertised_edge_ = read_ + receive_buffer_;
  if (connection_.severed() || network_.loses(to_, from_)) return;
  last_ack_arrival_ = std::max(last_ack_arrival_, world.now() + network_.delay(to_, from_));
  ack_flight_.push_back({.upto = received_, .window_edge = advertised_edge_, .fin = fin_received_, .echo = echo});
  world.at(last_ack_arrival_, connection_, Connection::kAck0 + static_cast<std::uint32_t>(from_end_));
}

void Pipe::acknowledgement_arrives() {
  if (ack_flight_.empty()) return;
  const Acknowledgement acknowledgement = ack_flight_.front();
  ack_flight_.pop_front();
  if (!connection_.severed() && network_.loses(to_, from_)) return;
  if (connection_.end(from_end_).deaf || stopped_) return;
  on_acknowledgement(acknowledgement);
}

void Pipe::on_acknowledgement(const Acknowledgement& acknowledgement) {
  const Instant now = network_.world().now();
  last_heard_ = now;
  const bool wider = acknowledgement.window_edge > window_edge_;
  window_edge_ = std::max(window_edge_, acknowledgement.window_edge);
  fin_acked_ = fin_acked_ || acknowledgement.fin;
  if (acknowledgement.upto > acked_) {
    const auto fresh = static_cast<std::size_t>(acknowledgement.upto - acked_);
    acked_ = acknowledgement.upto;
    next_ = std::max(next_, acked_);
    congestion_window_ = std::min(congestion_window_ + fresh, kCongestionWindowMax);
    repeated_acks_ = 0;
    retry_timeout_ = std::max(kRetryMin, 2 * srtt_);
    retry_deadline_ = kNever;
  } else if (!wider && acked_ < sent_ && ++repeated_acks_ == kFastRetryAcks) {
    next_ = acked_;
  }
  if (acknowledgement.echo != Instant{}) sample_round_trip(now - acknowledgement.echo);
  if (wider) retry_timeout_ = std::max(kRetryMin, 2 * srtt_);
  if (acked_ == sent_ && (!fin_sent_ || fin_acked_)) retry_deadline_ = kNever;
  arm_timer();
  network_.request_transmit(*this);
  if (room() > 0) connection_.on_room(from_end_);
}

void Pipe::sample_round_trip(Duration sample) {
  srtt_ = srtt_ == Duration{} ? sample : (7 * srtt_ + sample) / 8;
  min_rtt_ = min_rtt_ == Duration{} ? sample : std::min(min_rtt_, sample);
}

void Pipe::open_window() {
  window_edge_ = advertised_edge_ = receive_buffer_;
  last_heard_ = network_.world().now();
}

void Pipe::window_may_have_opened() {
  const std::uint64_t edge = read_ + receive_buffer_;
  const std::uint64_t known_room = advertised_edge_ - received_;
  const std::size_t step = std::min(segment_bytes_, receive_buffer_ / 2);
  if (known_room < segment_bytes_ && edge - advertised_edge_ >= step && connection_.accepts_packets(1 - from_end_)) {
    send_acknowledgement(Instant{});
  }
}

// ---- time-outs ----

void Pipe::arm_timer() {
  const bool waiting = sent_ > acked_ || (fin_sent_ && !fin_acked_);
  const bool shut_out = next_ < written_ && next_ >= window_edge_;
  if (stopped_ || (!waiting && !shut_out)) return;
  if (retry_deadline_ == kNever) retry_deadline_ = network_.world().now() + retry_timeout_;
  if (timer_at_ <= retry_deadline_) return;
  timer_at_ = retry_deadline_;
  network_.world().at(timer_at_, connection_, Connection::kTimer0 + static_cast<std::uint32_t>(from_end_));
}

void Pipe::timer_fires() {
  const Instant now = network_.world().now();
  if (timer_at_ == now) timer_at_ = kNever;
  if (retry_deadline_ > now) {
    arm_timer();
    return;
  }
  const bool waiting = sent_ > acked_ || (fin_sent_ && !fin_acked_);
  retry_deadline_ = kNever;
  retry_timeout_ = std::min(2 * retry_timeout_, kRetryMax);
  if (waiting) {
    next_ = acked_;
    fin_sent_ = fin_acked_;
    congestion_window_ = segment_bytes_;
    repeated_acks_ = 0;
  } else {
    probe_due_ = true;
  }
  arm_timer();
  network_.request_transmit(*this);
}

}  // namespace r2ccl::sim
