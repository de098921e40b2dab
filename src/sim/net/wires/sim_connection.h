#pragma once
// One connection as two kernels see it: a Pipe each way and an End each side. Modelled on what TCP shows to programs
// and to TCP_INFO, not on its packets' format.
//
//   accepted is not delivered   write() fills a finite send buffer; segments leave at the NIC's rate
//   window                      a receiver that does not read closes it: then nothing is unacknowledged
//   loss                        unacknowledged bytes wait for a time-out, 200 ms doubling, and are then sent again
//   reset                       what was sent and has not arrived is gone; the receive buffer can still be read
//   death of a process          its kernel answers later packets with a reset
//
// The bytes of a direction are stored once, from write() to read(); segments in flight are positions in them.

#include <deque>
#include <string>

#include "sim/net/wires/sim_network.h"
#include "transport/stream/stream.h"

namespace r2ccl::sim {

enum SegmentFlag : std::uint8_t {
  kFlagSyn = 1,
  kFlagSynAck = 2,
  kFlagFin = 4,
  kFlagReset = 8,
  kFlagProbe = 16,
  kFlagAgain = 32
};

struct Segment {
  std::uint64_t from = 0;
  std::uint32_t bytes = 0;
  std::uint8_t flags = 0;
  Instant sent_at{};
};

struct Acknowledgement {
  std::uint64_t upto = 0;
  std::uint64_t window_edge = 0;
  bool fin = false;
  Instant echo{};  // when the acknowledged segment was sent; default: not a sample
};

// One direction: the sender's kernel, the wire, the receiver's kernel.
class Pipe {
 public:
  Pipe(Connection& connection, int from_end, NicRef from, NicRef to, const NetworkConfig& config);

  NicRef from() const { return from_; }
  NicRef to() const { return to_; }

  // ---- the sending program ----
  std::size_t room() const;
  void append(ByteView bytes);
  void flip_bit(std::uint64_t position, int bit);  // a byte written and not yet read
  std::uint64_t written() const { return written_; }
  void finish() { fin_wanted_ = true; }
  Progress progress(Instant now) const;
  void heard_something(Instant now) { last_heard_ = now; }

  // ---- the receiving program ----
  std::size_t available() const { return static_cast<std::size_t>(received_ - read_); }
  void take(std::byte* out, std::size_t bytes);
  bool ended() const { return fin_received_ && read_ == received_; }
  std::uint64_t received() const { return received_; }

  // ---- the network ----
  bool wants_to_send() const;
  Segment next_segment(Instant now);
  void launch(const Segment& segment, Instant departs, std::size_t wire_bytes);
  void send_bare(std::uint8_t flags);  // SYN, SYN-ACK, reset: not queued behind data
  void segment_arrives();
  void acknowledgement_arrives();
  void timer_fires();
  void send_acknowledgement(Instant echo);
  void open_window();  // after the connection stands
  void window_may_have_opened();
  void stop_sending();  // that end is gone; what is in flight stays in flight
  void lose_suffix(std::size_t keep, Instant not_before);

  // The connection is cut when exactly that many bytes of this direction have arrived.
  void cut_at(std::uint64_t position, Duration notice_from, Duration notice_to);

  bool on_nic_queue = false;  // kept by sim_network.cc

 private:
  void on_data(const Segment& segment);
  void on_acknowledgement(const Acknowledgement& acknowledgement);
  void sample_round_trip(Duration sample);
  void arm_timer();
  void compact();

  Connection& connection_;
  Network& network_;
  const int from_end_;
  const NicRef from_;
  const NicRef to_;
  const std::size_t send_buffer_;
  const std::size_t receive_buffer_;
  const std::size_t segment_bytes_;

  Bytes store_;  // bytes [store_base_, written_)
  std::uint64_t store_base_ = 0;
  std::uint64_t written_ = 0;  // accepted from the sending program
  std::uint64_t next_ = 0;     // next to transmit; steps back after a time-out
  std::uint64_t sent_ = 0;     // transmitted at least once
  std::uint64_t acked_ = 0;
  std::uint64_t window_edge_ = 0;  // as far as the sender knows
  std::uint64_t received_ = 0;
  std::uint64_t read_ = 0;
  std::uint64_t advertised_edge_ = 0;
  bool stopped_ = false;
  bool fin_wanted_ = false, fin_sent_ = false, fin_acked_ = false, fin_received_ = false;

  std::size_t congestion_window_;
  int repeated_acks_ = 0;
  bool probe_due_ = false;
  Duration retry_timeout_;
  Instant retry_deadline_ = kNever;
  Instant timer_at_ = kNever;  // the timer event that is in the queue
  Instant last_heard_{};
  Duration srtt_{};
  Duration min_rtt_{};

  std::uint64_t cut_position_ = UINT64_MAX;
  Duration cut_notice_from_{}, cut_notice_to_{};

  std::deque<Segment> flight_;
  std::deque<Acknowledgement> ack_flight_;
  Instant last_arrival_{};
  Instant last_ack_arrival_{};
  Instant hold_until_{};
};

class Connection final : public EventTarget {
 public:
  struct End {
    SimDialer* dialer = nullptr;  // null: the process is gone
    LinkState state = LinkState::kOpening;
    Cause cause = Cause::kNone;
    std::string error;
    bool exists = false;
    bool closed = false;   // by its program
    bool deaf = false;     // Link::deafen
    bool blocked = false;  // a write did not fit: wake the program when there is room
    bool resting = false;  // takes no write for a moment (split_writes)
  };

  Connection(Network& network, SimDialer& from, NicRef from_nic, const Address& to, NicRef to_nic);

  Network& network() { return network_; }
  End& end(int side) { return ends_[side]; }
  Pipe& pipe(int from_side) { return pipes_[from_side]; }
  NicRef nic(int side) const { return pipes_[side].from(); }

  Io write(int side, std::span<const ByteView> parts);
  Io read(int side, std::span<const ReadPart> parts);
  bool readable(int side) const;
  bool writable(int side) const;
  void close(int side, bool abortive);

  // The network forgot this connection: nothing passes any more but a prefix of what is in flight.
  void cut(Duration notice_0, Duration notice_1, bool late_prefix);
  bool severed() const { return severed_; }

  // ---- used by Pipe ----
  enum Kind : std::uint32_t {
    kSegment0,
    kSegment1,
    kAck0,
    kAck1,
    kTimer0,
    kTimer1,
    kNotice0,
    kNotice1,
    kRested0,
    kRested1,
    kSynRetry
  };
  void on_bare(int to_side, const Segment& segment);
  bool accepts_packets(int side) const;
  void refuse_packet(int side);  // a packet for an end that is gone
  void wake(int side);
  void fail_end(int side, Cause cause, std::string why);
  void on_room(int side);

 private:
  void on_event(std::uint32_t kind, std::uint32_t argument) override;
  void syn_arrives();
  void maybe_corrupt(int side, std::uint64_t from, std::span<const ByteView> parts);

  Network& network_;
  const Address target_;
  End ends_[2];
  Pipe pipes_[2];
  bool severed_ = false;
  int syn_tries_ = 0;
};

}  // namespace r2ccl::sim
