#pragma once
// The network of PortModel::kMultiPort: every NIC direction is a queue in the order of calls, every GPU's fabric port
// a backlog of work.
//
// A message without a planned route, with one GPU per server: it leaves in units of at most kLargestUnit, each on the NIC that ends
// it first, and arrives likewise. One of many units is poured over the NICs instead, as if units were small: all NICs that take part
// end together. With several GPUs per server each has its fractions of the NICs, its own first (routes.h); what leaves or arrives
// through another GPU's NIC crosses the server's fabric and occupies the ports of both GPUs.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/ports.h"
#include "sim/cluster/replay.h"
#include "sim/cluster/routes.h"
#include "sim/cluster/timing.h"

namespace r2ccl::sim {

class MultiPort final {
 public:
  static constexpr bool kDeferred = false;

  // All must outlive the object. Counts what passes the NICs in `timing`.
  MultiPort(const Cluster& cluster, const Frame& frame, const LaneTraffic& traffic, const TimingOptions& options,
            Timing& timing);

  double send(const Message& message);
  // Servers (one GPU each) or ranks for messages that may use several NICs, then NICs for pinned ones, then fabric ports.
  std::uint32_t queues() const;
  std::uint32_t queue_of(const Message& message) const;
  double free_s(const Message& message) const;
  double leaves_s(const Message& message, double free_s) const { return std::max(free_s, message.ready_s); }
  // How long the NICs of the server that had most to do were busy in one direction, in the mean.
  double busiest_s() const;
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
  // With several GPUs per server: each is held to its part of the server's traffic, or one whose NIC is lost would take every NIC
  // that becomes free and run ahead of the others.
  std::vector<double> pace_s_per_byte_;  // [rank]
  std::vector<double> paced_until_s_;
  std::vector<double> out_free_s_;  // [server * nics + nic]
  std::vector<double> in_free_s_;
  std::vector<double> out_busy_s_;
  std::vector<double> in_busy_s_;
  // With faults: the largest idle time of a NIC before free_s. A unit that waits for a repair is booked far ahead; without these
  // all that is sent meanwhile would queue up behind it.
  std::vector<Use> out_gap_;
  std::vector<Use> in_gap_;
  std::vector<double> fabric_out_free_s_;  // [rank]
  std::vector<double> fabric_in_free_s_;
  std::vector<double> start_s_;  // scratch of pour()
  std::string error_;
};

}  // namespace r2ccl::sim
