#pragma once
// The network of PortModel::kMultiPort: every NIC direction is a queue in the order of calls, every GPU's fabric port
// a backlog of work.
//
// A message without a planned route, with one GPU per server: it leaves in units of at most kLargestUnit, each on the
// NIC that ends it first, and arrives likewise. One of many units is poured over the NICs instead, as if units were
// small: all NICs that take part end together. With several GPUs per server each has its fractions of the NICs, its own
// first (routes.h); what leaves or arrives through another GPU's NIC crosses the server's fabric and occupies the ports
// of both GPUs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/ports/ports.h"
#include "sim/cluster/replay.h"
#include "sim/cluster/routes.h"
#include "sim/cluster/timing.h"

namespace r2ccl::sim {

class MultiPort final {
 public:
  static constexpr bool kDeferred = false;

  // All must outlive the object. Counts what passes the NICs in `timing`.
  MultiPort(const Cluster& cluster, const PlanHeader& header, const LaneTraffic& traffic, const TimingOptions& options,
            Timing& timing);

  double send(const Message& message) {
    const std::uint32_t out = own_nics_[message.from].out;
    const std::uint32_t in = own_nics_[message.to].in;
    if (const std::optional<NicPair> pins = simply_pinned(message)) return by_pins(message, *pins);
    if (message.inside || message.rail >= 0 || out == kNoIndex || in == kNoIndex) return send_any(message);
    return by_own(message, out, in);
  }
  // Servers (one GPU each) or ranks for messages that may use several NICs, then NICs for pinned ones, then fabric
  // ports.
  std::uint32_t queues() const;
  std::uint32_t queue_of(const Message& message) const {
    if (const std::optional<NicPair> pins = simply_pinned(message)) return cluster_.ranks() + pins->out;
    if (message.inside) return cluster_.ranks() + static_cast<std::uint32_t>(out_free_s_.size()) + message.from;
    return message.rail < 0 ? message.from : pinned_queue(message);
  }
  double free_s(const Message& message) const {
    if (const std::optional<NicPair> pins = simply_pinned(message)) return out_free_s_[pins->out];
    const std::uint32_t nic = own_nics_[message.from].out;
    if (message.inside || message.rail >= 0 || nic == kNoIndex) return free_any_s(message);
    return std::max(out_free_s_[nic], paced_until_s_[message.from]);
  }
  double leaves_s(const Message& message, double free_s) const { return std::max(free_s, message.ready_s); }
  // How long the NICs of the server that had most to do were busy in one direction, in the mean.
  double busiest_s() const;
  // How long the fabric port that had most to do was.
  double busiest_fabric_s() const;
  // Why a message had no route; empty if all had. Their arrivals are infinite.
  const std::string& error() const { return error_; }

 private:
  // The NICs of one server in one direction, as seen from one GPU.
  struct Side {
    std::uint32_t server = 0;
    std::uint32_t gpu = 0;
    double* free_s = nullptr;
    double* bytes = nullptr;
    double* busy_s = nullptr;
    Use* gap = nullptr;  // nothing without faults
    const double* seconds_per_byte = nullptr;
    bool outgoing = true;
  };
  Side out_side(const Message& message);
  Side in_side(const Message& message);

  // Of a rank: the NIC that carries all it sends or receives, and needs no crossing; numbered server * nics + nic.
  // kNoIndex: several.
  struct OwnNics {
    std::uint32_t out = kNoIndex;
    std::uint32_t in = kNoIndex;
  };
  void find_own_nics();
  double by_own(const Message& message, std::uint32_t out, std::uint32_t in) {
    double& paced_s = paced_until_s_[message.from];
    paced_s = std::max(paced_s, message.ready_s) + message.bytes * pace_s_per_byte_[message.from];
    return by_pins(message, {out, in});
  }
  // Of most messages on rails, without the questions that most answer in the same way: NICs of a pinned lane where
  // every server has one GPU and the fabric is routed, numbered server * nics + nic.
  std::optional<NicPair> simply_pinned(const Message& message) const {
    if (message.rail < 0 || static_cast<std::size_t>(message.rail) >= simple_pins_) return std::nullopt;
    const auto rail = static_cast<std::size_t>(message.rail);
    const NicPair pins{nic_of_pin_[message.from * simple_pins_ + rail], nic_of_pin_[message.to * simple_pins_ + rail]};
    return pins.out != kNoIndex && pins.in != kNoIndex ? std::optional(pins) : std::nullopt;
  }
  void find_simple_pins();
  // As part() does it.
  double by_pins(const Message& message, NicPair pins) {
    ++timing_.messages;
    const double* const seconds_per_byte = rates_.seconds_per_byte().data();
    const double out_s = std::max(out_free_s_[pins.out], message.ready_s);
    const double sent_s = out_s + (message.bytes * seconds_per_byte[pins.out] + cluster_.port_cost_s);
    out_free_s_[pins.out] = sent_s;
    timing_.nic_bytes_out[pins.out] += message.bytes;
    out_busy_s_[pins.out] += sent_s - out_s;
    const double in_s = std::max(in_free_s_[pins.in], std::min(out_s, message.now_s) + cluster_.alpha_s);
    const double received_s = in_s + message.bytes * seconds_per_byte[pins.in] + cluster_.port_cost_s;
    in_free_s_[pins.in] = received_s;
    timing_.nic_bytes_in[pins.in] += message.bytes;
    in_busy_s_[pins.in] += received_s - in_s;
    return std::max(received_s, sent_s + cluster_.alpha_s);
  }
  double send_any(const Message& message);
  std::uint32_t pinned_queue(const Message& message) const;
  double free_any_s(const Message& message) const;
  void share_nics(const LaneTraffic& traffic);
  double inside_server(const Message& message);
  double by_shares(const Message& message);
  double by_gpus(const Message& message);
  double routed(const Message& message);
  double poured(const Message& message);
  double no_route(const Message& message);

  std::uint32_t quickest(const Side& side, double ready_s, double bytes) const;
  Use pour(const Message& message, const Side& side, double ready_s);
  double part(const Message& message, NicPair nics, double bytes);
  Use leave(const Message& message, const Side& side, std::uint32_t nic, double bytes);
  double arrive(const Message& message, const Side& side, std::uint32_t nic, Use sent, double bytes);
  Use cross(const Message& message, std::uint32_t from, std::uint32_t to, double ready_s, double bytes);
  double crossing_s(double bytes) const { return cluster_.intra_alpha_s + bytes * intra_seconds_per_byte_; }
  void note(const Message& message, const Side& side, std::uint32_t nic, Use use, double bytes) {
    side.bytes[nic] += bytes;
    side.busy_s[nic] += use.end_s - use.begin_s;
    if (options_.occupancy != nullptr) [[unlikely]]
      draw(message, side, nic, use);
  }
  void draw(const Message& message, const Side& side, std::uint32_t nic, Use use);

  // With faults inside the collective.
  double in_units(const Message& message, const NicPair* planned, double bytes);
  double unit(const Message& message, const NicPair* planned, double bytes);
  double crossed_s(const Message& message, const Side& side, std::uint32_t nic, double ready_s, double bytes);
  double start_s(const Side& side, std::uint32_t nic, double ready_s, double bytes) const;
  void book(const Side& side, std::uint32_t nic, Use use);
  NicRates::Service serve(const Side& side, std::uint32_t nic, double begin_s, double bytes) const;
  Use estimate(const Side& side, std::uint32_t nic, double ready_s, double bytes) const;
  std::optional<NicPair> choose(const Side& out, const Side& in, const NicPair* planned, double ready_s,
                                double bytes) const;

  const Cluster& cluster_;
  const TimingOptions& options_;
  Timing& timing_;
  NicRates rates_;
  Routes routes_;
  Splitter out_of_gpu_;  // with several GPUs per server: by rank
  Splitter into_gpu_;
  const double intra_seconds_per_byte_;
  std::vector<std::uint32_t> server_of_;  // [rank]; divisions would be a tenth of the time
  // With several GPUs per server: each is held to its part of the server's traffic, or one whose NIC is lost would take
  // every NIC that becomes free and run ahead of the others.
  std::vector<double> pace_s_per_byte_;  // [rank]
  std::vector<double> paced_until_s_;
  std::vector<OwnNics> own_nics_;          // [rank]
  std::size_t simple_pins_ = 0;            // rails of a server, where lanes are simply_pinned()
  std::vector<std::uint32_t> nic_of_pin_;  // [server * rails + rail]; kNoIndex: lost
  std::vector<double> out_free_s_;         // [server * nics + nic]
  std::vector<double> in_free_s_;
  std::vector<double> out_busy_s_;
  std::vector<double> in_busy_s_;
  // With faults: the largest idle time of a NIC before free_s. A unit that waits for a repair is booked far ahead;
  // without these all that is sent meanwhile would queue up behind it.
  std::vector<Use> out_gap_;
  std::vector<Use> in_gap_;
  struct FabricPort {
    double free_s = 0;
    double busy_s = 0;

    void add(double from_s, double for_s) {
      free_s = std::max(free_s, from_s) + for_s;
      busy_s += for_s;
    }
  };
  std::vector<FabricPort> fabric_out_;  // [rank]
  std::vector<FabricPort> fabric_in_;
  std::vector<double> start_s_;  // scratch of pour()
  std::string error_;
};

}  // namespace r2ccl::sim
