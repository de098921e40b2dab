#include "sim/cluster/ports/one_port.h"

#include <algorithm>

namespace r2ccl::sim {

OnePort::OnePort(const Cluster& cluster, const TimingOptions& options, Timing& timing)
    : cluster_(cluster),
      options_(options),
      timing_(timing),
      out_free_s_(cluster.servers, 0),
      in_free_s_(cluster.servers, 0),
      fabric_out_free_s_(cluster.ranks(), 0),
      fabric_in_free_s_(cluster.ranks(), 0) {
  for (std::uint32_t server = 0; server < cluster.servers; ++server) rate_.push_back(cluster.server_rate(server));
}

std::uint32_t OnePort::queue_of(const Message& message) const {
  const std::uint32_t u = message.from / cluster_.gpus;
  return u == message.to / cluster_.gpus ? cluster_.servers + message.from : u;
}

double OnePort::free_s(const Message& message) const {
  const std::uint32_t u = message.from / cluster_.gpus;
  return u == message.to / cluster_.gpus ? fabric_out_free_s_[message.from] : out_free_s_[u];
}

double OnePort::leaves_s(const Message& message, double free_s) const {
  const std::uint32_t v = message.to / cluster_.gpus;
  const double other_s = v == message.from / cluster_.gpus ? fabric_in_free_s_[message.to] : in_free_s_[v];
  return std::max({free_s, other_s, message.ready_s});
}

double OnePort::send(const Message& message) {
  const std::uint32_t u = message.from / cluster_.gpus;
  const std::uint32_t v = message.to / cluster_.gpus;
  const bool inside = u == v;
  ++(inside ? timing_.intra_messages : timing_.messages);
  double& out_free_s = inside ? fabric_out_free_s_[message.from] : out_free_s_[u];
  double& in_free_s = inside ? fabric_in_free_s_[message.to] : in_free_s_[v];
  const double rate = inside ? cluster_.intra_rate : std::min(rate_[u], rate_[v]);
  const double begin_s = leaves_s(message, free_s(message));
  const double end_s = begin_s + message.bytes / rate + (inside ? 0 : cluster_.port_cost_s);
  out_free_s = end_s;
  in_free_s = end_s;
  if (inside) return end_s + cluster_.intra_alpha_s;
  timing_.nic_bytes_out[u * cluster_.nics] += message.bytes;
  timing_.nic_bytes_in[v * cluster_.nics] += message.bytes;
  if (options_.occupancy != nullptr) {
    for (const bool outgoing : {true, false}) {
      options_.occupancy->push_back({.server = outgoing ? u : v,
                                     .nic = 0,
                                     .outgoing = outgoing,
                                     .begin_s = begin_s,
                                     .end_s = end_s,
                                     .peer_server = outgoing ? v : u,
                                     .span = message.span,
                                     .segment = message.segment});
    }
  }
  return end_s + cluster_.alpha_s;
}

}  // namespace r2ccl::sim
