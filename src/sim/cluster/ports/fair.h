#pragma once
// The network of PortModel::kFair: messages are fluid and share all ports max-min fairly; rates are recomputed whenever
// one starts or ends. Messages of a connection flow one after another. The price grows with messages x flows x ports: a
// reference for small clusters, not a tool to search with.
//
// Ports: every server's NICs together in each direction for messages that may use any NIC, single NICs for pinned and
// split ones, every GPU's fabric port. A schedule that mixes pinned and free messages passes both kinds.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "sim/cluster/replay.h"
#include "sim/cluster/routes.h"
#include "sim/cluster/timing.h"

namespace r2ccl::sim {

class Fair final {
 public:
  static constexpr bool kDeferred = true;

  // All must outlive the object.
  Fair(const Cluster& cluster, const PlanHeader& header, std::size_t connections, Timing& timing);

  void send(const Message& message);
  bool settle(std::vector<MessageArrival>& arrived);
  const std::string& error() const { return error_; }

 private:
  struct Flow {
    std::uint32_t connection = 0;
    double left = 0;  // bytes
    double rate = 0;
    double latency_s = 0;
    std::uint32_t ports[4] = {};
    std::uint32_t port_count = 0;
  };
  std::uint32_t out_port(std::uint32_t nic) const { return nic; }
  std::uint32_t in_port(std::uint32_t nic) const { return nics_ + nic; }

  void start_ready();
  void start(const Message& message);
  void add_flow(const Message& message, double bytes, std::initializer_list<std::uint32_t> ports, double latency_s);
  void add_part(const Message& message, NicPair nics, double bytes);
  void share_rates();
  double next_start_s() const;

  const Cluster& cluster_;
  Timing& timing_;
  Routes routes_;
  const std::uint32_t nics_;  // in the cluster
  double now_s_ = 0;
  // NICs out, NICs in, servers out, servers in, fabric out, fabric in.
  std::vector<double> capacity_;
  std::vector<std::deque<Message>> waiting_;    // [connection]; not started
  std::vector<std::uint32_t> parts_under_way_;  // [connection]
  std::vector<Flow> flows_;
  std::vector<double> spare_;  // scratch of share_rates()
  std::vector<std::uint32_t> users_;
  std::string error_;
};

}  // namespace r2ccl::sim
