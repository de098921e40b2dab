#include "sim/cluster/ports/fair.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/cluster/ports/ports.h"

namespace r2ccl::sim {
namespace {

constexpr double kDoneBytes = 1e-6;
constexpr double kUnsettled = -1;

}  // namespace

Fair::Fair(const Cluster& cluster, const PlanHeader& header, std::size_t connections, Timing& timing)
    : cluster_(cluster),
      timing_(timing),
      routes_(cluster, header),
      nics_(cluster.servers * cluster.nics),
      waiting_(connections),
      parts_under_way_(connections, 0) {
  for (int direction = 0; direction < 2; ++direction)
    capacity_.insert(capacity_.end(), cluster.rate.begin(), cluster.rate.end());
  for (int direction = 0; direction < 2; ++direction) {
    for (std::uint32_t server = 0; server < cluster.servers; ++server) capacity_.push_back(cluster.server_rate(server));
  }
  capacity_.insert(capacity_.end(), std::size_t{2} * cluster.ranks(), cluster.intra_rate);
}

void Fair::send(const Message& message) {
  waiting_[message.connection].push_back(message);
}

void Fair::add_flow(const Message& message, double bytes, std::initializer_list<std::uint32_t> ports,
                    double latency_s) {
  Flow flow{.connection = message.connection, .left = bytes, .latency_s = latency_s};
  for (const std::uint32_t port : ports) flow.ports[flow.port_count++] = port;
  flows_.push_back(flow);
  ++parts_under_way_[message.connection];
}

void Fair::add_part(const Message& message, NicPair nics, double bytes) {
  const std::uint32_t u = message.from / cluster_.gpus;
  const std::uint32_t v = message.to / cluster_.gpus;
  const std::uint32_t out = u * cluster_.nics + nics.out;
  const std::uint32_t in = v * cluster_.nics + nics.in;
  timing_.nic_bytes_out[out] += bytes;
  timing_.nic_bytes_in[in] += bytes;
  const double cost = cluster_.port_cost_s * std::min(capacity_[out_port(out)], capacity_[in_port(in)]);
  add_flow(message, bytes + cost, {out_port(out), in_port(in)}, cluster_.alpha_s);
}

void Fair::start(const Message& message) {
  const std::uint32_t u = message.from / cluster_.gpus;
  const std::uint32_t v = message.to / cluster_.gpus;
  const std::uint32_t servers_out = 2 * nics_;
  const std::uint32_t fabric_out = servers_out + 2 * cluster_.servers;
  if (u == v) {
    ++timing_.intra_messages;
    return add_flow(message, message.bytes, {fabric_out + message.from, fabric_out + cluster_.ranks() + message.to},
                    cluster_.intra_alpha_s);
  }
  ++timing_.messages;
  if (message.rail >= 0) {
    if (const auto nics = routes_.pinned(u, v, static_cast<std::uint32_t>(message.rail)))
      return add_part(message, *nics, message.bytes);
  } else {
    if (routes_.has_rails()) {
      for (const Splitter::Part& part : routes_.rails(u, v, message.bytes))
        add_part(message, {part.nic, part.nic}, part.bytes);
    }
    if (parts_under_way_[message.connection] > 0) return;
    if (cluster_.fabric == Fabric::kRouted) {
      for (std::uint32_t k = 0; k < cluster_.nics; ++k) {
        timing_.nic_bytes_out[u * cluster_.nics + k] += message.bytes * cluster_.nic(u, k) / cluster_.server_rate(u);
        timing_.nic_bytes_in[v * cluster_.nics + k] += message.bytes * cluster_.nic(v, k) / cluster_.server_rate(v);
      }
      const double cost =
          cluster_.port_cost_s * cluster_.nic_rate * std::max(1.0, std::ceil(message.bytes / kLargestUnit));
      return add_flow(message, message.bytes + cost, {servers_out + u, servers_out + cluster_.servers + v},
                      cluster_.alpha_s);
    }
  }
  error_ = fmt::format("rank {} can not reach rank {}: no NIC that works at both ends", message.from, message.to);
}

void Fair::start_ready() {
  for (std::size_t c = 0; c < waiting_.size(); ++c) {
    if (parts_under_way_[c] > 0 || waiting_[c].empty() || waiting_[c].front().ready_s > now_s_) continue;
    const Message message = waiting_[c].front();
    waiting_[c].pop_front();
    start(message);
  }
}

double Fair::next_start_s() const {
  double next_s = kNever;
  for (std::size_t c = 0; c < waiting_.size(); ++c) {
    if (parts_under_way_[c] == 0 && !waiting_[c].empty()) next_s = std::min(next_s, waiting_[c].front().ready_s);
  }
  return next_s;
}

// Progressive filling: the port with the least to give to each of its flows decides their rate, then the next.
void Fair::share_rates() {
  spare_ = capacity_;
  users_.assign(capacity_.size(), 0);
  for (Flow& flow : flows_) {
    flow.rate = kUnsettled;
    for (std::uint32_t i = 0; i < flow.port_count; ++i) ++users_[flow.ports[i]];
  }
  for (std::size_t settled = 0; settled < flows_.size();) {
    std::size_t tightest = 0;
    double least = kNever;
    for (std::size_t port = 0; port < spare_.size(); ++port) {
      if (users_[port] > 0 && spare_[port] / users_[port] < least) {
        least = spare_[port] / users_[port];
        tightest = port;
      }
    }
    for (Flow& flow : flows_) {
      const auto end = flow.ports + flow.port_count;
      if (flow.rate != kUnsettled || std::find(flow.ports, end, tightest) == end) continue;
      flow.rate = least;
      ++settled;
      for (auto port = flow.ports; port != end; ++port) {
        spare_[*port] = std::max(0.0, spare_[*port] - least);
        --users_[*port];
      }
    }
  }
}

bool Fair::settle(std::vector<MessageArrival>& arrived) {
  while (arrived.empty() && error_.empty()) {
    start_ready();
    const double start_s = next_start_s();
    if (flows_.empty() && start_s == kNever) return false;
    share_rates();
    double next_s = start_s;
    for (const Flow& flow : flows_) next_s = std::min(next_s, now_s_ + flow.left / flow.rate);
    for (Flow& flow : flows_) flow.left -= flow.rate * (next_s - now_s_);
    now_s_ = next_s;
    for (const Flow& flow : flows_) {
      if (flow.left > kDoneBytes || --parts_under_way_[flow.connection] > 0) continue;
      arrived.push_back({flow.connection, now_s_ + flow.latency_s});
    }
    std::erase_if(flows_, [](const Flow& flow) { return flow.left <= kDoneBytes; });
  }
  return error_.empty();
}

}  // namespace r2ccl::sim
