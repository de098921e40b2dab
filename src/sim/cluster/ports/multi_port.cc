#include "sim/cluster/ports/multi_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace r2ccl::sim {
namespace {

// From so many units on a message is poured; fewer are cheaper one by one.
constexpr double kManyUnits = 3;

std::uint32_t units_in(double bytes) {
  return 1 + static_cast<std::uint32_t>(bytes / (kLargestUnit + 0.5));
}

}  // namespace

MultiPort::MultiPort(const Cluster& cluster, const PlanHeader& header, const LaneTraffic& traffic,
                     const TimingOptions& options, Timing& timing)
    : cluster_(cluster),
      options_(options),
      timing_(timing),
      rates_(cluster, options.faults),
      routes_(cluster, header),
      intra_seconds_per_byte_(cluster.intra_rate > 0 ? 1 / cluster.intra_rate : 0),
      out_free_s_(cluster.rate.size(), 0),
      in_free_s_(cluster.rate.size(), 0),
      out_busy_s_(cluster.rate.size(), 0),
      in_busy_s_(cluster.rate.size(), 0),
      out_gap_(options.faults.empty() ? 0 : cluster.rate.size()),
      in_gap_(out_gap_.size()),
      fabric_out_(cluster.ranks()),
      fabric_in_(cluster.ranks()),
      start_s_(cluster.nics, 0) {
  for (std::uint32_t rank = 0; rank < cluster.ranks(); ++rank) server_of_.push_back(rank / cluster.gpus);
  own_nics_.resize(cluster.ranks());
  const bool simple = rates_.constant() && options.occupancy == nullptr;
  if (cluster.gpus == 1 && cluster.fabric == Fabric::kRouted && simple) find_simple_pins();
  if (cluster.gpus > 1) share_nics(traffic);
  if (cluster.gpus > 1 && !routes_.has_rails() && simple) find_own_nics();
}

void MultiPort::find_simple_pins() {
  simple_pins_ = cluster_.nics;
  for (std::uint32_t server = 0; server < cluster_.servers; ++server) {
    for (std::uint32_t rail = 0; rail < cluster_.nics; ++rail) {
      const std::optional<NicPair> pair = routes_.pinned(server, server, rail);
      nic_of_pin_.push_back(pair ? server * cluster_.nics + pair->out : kNoIndex);
    }
  }
}

void MultiPort::find_own_nics() {
  const auto only = [&](const Splitter& splitter, std::uint32_t rank) {
    const std::span<const std::uint32_t> nics = splitter.nics(rank);
    const bool own = nics.size() == 1 && routes_.owns(rank % cluster_.gpus, nics[0]);
    return own ? server_of_[rank] * cluster_.nics + nics[0] : kNoIndex;
  };
  for (std::uint32_t rank = 0; rank < cluster_.ranks(); ++rank) {
    own_nics_[rank].out = only(out_of_gpu_, rank);
    own_nics_[rank].in = only(into_gpu_, rank);
  }
}

void MultiPort::share_nics(const LaneTraffic& traffic) {
  out_of_gpu_ = routes_.by_gpu(traffic.free_out);
  into_gpu_ = routes_.by_gpu(traffic.free_in);
  paced_until_s_.assign(cluster_.ranks(), 0);
  for (std::uint32_t rank = 0; rank < cluster_.ranks(); ++rank) {
    const std::uint32_t server = rank / cluster_.gpus;
    const auto first = traffic.free_out.begin() + static_cast<std::ptrdiff_t>(server) * cluster_.gpus;
    const double all = std::accumulate(first, first + cluster_.gpus, 0.0);
    pace_s_per_byte_.push_back(traffic.free_out[rank] > 0 ? all / traffic.free_out[rank] / cluster_.server_rate(server)
                                                          : 0);
  }
}

MultiPort::Side MultiPort::out_side(const Message& message) {
  const std::uint32_t server = server_of_[message.from];
  const std::uint32_t first = server * cluster_.nics;
  return {.server = server,
          .gpu = message.from - server * cluster_.gpus,
          .free_s = out_free_s_.data() + first,
          .bytes = timing_.nic_bytes_out.data() + first,
          .busy_s = out_busy_s_.data() + first,
          .gap = out_gap_.empty() ? nullptr : out_gap_.data() + first,
          .seconds_per_byte = rates_.seconds_per_byte().data() + first,
          .outgoing = true};
}

MultiPort::Side MultiPort::in_side(const Message& message) {
  const std::uint32_t server = server_of_[message.to];
  const std::uint32_t first = server * cluster_.nics;
  return {.server = server,
          .gpu = message.to - server * cluster_.gpus,
          .free_s = in_free_s_.data() + first,
          .bytes = timing_.nic_bytes_in.data() + first,
          .busy_s = in_busy_s_.data() + first,
          .gap = in_gap_.empty() ? nullptr : in_gap_.data() + first,
          .seconds_per_byte = rates_.seconds_per_byte().data() + first,
          .outgoing = false};
}

double MultiPort::send_any(const Message& message) {
  const std::uint32_t u = server_of_[message.from];
  const std::uint32_t v = server_of_[message.to];
  if (u == v) return inside_server(message);
  ++timing_.messages;
  const bool faults = !rates_.constant();
  if (message.rail >= 0) {
    const auto nics = routes_.pinned(u, v, static_cast<std::uint32_t>(message.rail));
    if (!nics) return no_route(message);
    return faults ? in_units(message, &*nics, message.bytes) : part(message, *nics, message.bytes);
  }
  if (routes_.has_rails()) return by_shares(message);
  if (faults) return in_units(message, nullptr, message.bytes);
  if (cluster_.gpus > 1) return by_gpus(message);
  return message.bytes >= kManyUnits * kLargestUnit ? poured(message) : routed(message);
}

std::uint32_t MultiPort::queues() const {
  return 2 * cluster_.ranks() + cluster_.servers * cluster_.nics;
}

std::uint32_t MultiPort::pinned_queue(const Message& message) const {
  const std::uint32_t u = server_of_[message.from];
  const auto pair = routes_.pinned(u, server_of_[message.to], static_cast<std::uint32_t>(message.rail));
  return pair ? cluster_.ranks() + u * cluster_.nics + pair->out : message.from;
}

double MultiPort::busiest_s() const {
  double most_s = 0;
  for (std::uint32_t server = 0; server < cluster_.servers; ++server) {
    const auto first = static_cast<std::ptrdiff_t>(server) * cluster_.nics;
    const auto rate = cluster_.rate.begin() + first;
    const auto working = std::count_if(rate, rate + cluster_.nics, [](double r) { return r > 0; });
    for (const std::vector<double>* busy_s : {&out_busy_s_, &in_busy_s_}) {
      const auto of_nic = busy_s->begin() + first;
      most_s = std::max(most_s, std::accumulate(of_nic, of_nic + cluster_.nics, 0.0) / static_cast<double>(working));
    }
  }
  return most_s;
}

double MultiPort::busiest_fabric_s() const {
  double most_s = 0;
  for (const std::vector<FabricPort>* ports : {&fabric_out_, &fabric_in_}) {
    for (const FabricPort& port : *ports) most_s = std::max(most_s, port.busy_s);
  }
  return most_s;
}

// A message is free to leave when the first of its NICs is; what has to cross the fabric does so before.
double MultiPort::free_any_s(const Message& message) const {
  const std::uint32_t u = server_of_[message.from];
  const std::uint32_t v = server_of_[message.to];
  const std::uint32_t gpu = message.from - u * cluster_.gpus;
  if (u == v) return fabric_out_[message.from].free_s;
  const double* const free_s = out_free_s_.data() + std::size_t{u} * cluster_.nics;
  const double crossing = cluster_.gpus == 1 ? 0 : crossing_s(message.bytes);
  if (message.rail >= 0) {
    const auto pair = routes_.pinned(u, v, static_cast<std::uint32_t>(message.rail));
    if (!pair) return 0;
    return free_s[pair->out] - (routes_.owns(gpu, pair->out) ? 0 : crossing);
  }
  if (cluster_.gpus == 1 || routes_.has_rails()) {
    const double* const rate = cluster_.rate.data() + std::size_t{u} * cluster_.nics;
    double first_s = kNever;
    for (std::uint32_t k = 0; k < cluster_.nics; ++k) {
      if (rate[k] <= 0) continue;
      first_s = std::min(first_s, free_s[k] - (cluster_.gpus == 1 || routes_.owns(gpu, k) ? 0 : crossing));
    }
    return cluster_.gpus == 1 ? first_s : std::max(first_s, paced_until_s_[message.from]);
  }
  double first_s = kNever;
  for (const std::uint32_t k : out_of_gpu_.nics(message.from))
    first_s = std::min(first_s, free_s[k] - (routes_.owns(gpu, k) ? 0 : crossing));
  return std::max(first_s, paced_until_s_[message.from]);
}

double MultiPort::inside_server(const Message& message) {
  ++timing_.intra_messages;
  return cross(message, message.from, message.to, message.ready_s, message.bytes).end_s;
}

double MultiPort::no_route(const Message& message) {
  if (error_.empty()) {
    const std::string how = message.rail >= 0 ? fmt::format("on rail {}", message.rail) : std::string("on any rail");
    error_ =
        fmt::format("rank {} can not reach rank {} {}: no NIC that works at both ends", message.from, message.to, how);
  }
  return kNever;
}

double MultiPort::by_shares(const Message& message) {
  const auto parts = routes_.rails(server_of_[message.from], server_of_[message.to], message.bytes);
  const bool faults = !rates_.constant();
  if (parts.empty()) {
    if (cluster_.fabric == Fabric::kRails) return no_route(message);
    if (faults) return in_units(message, nullptr, message.bytes);
    return cluster_.gpus > 1 ? by_gpus(message) : routed(message);
  }
  double arrival_s = 0;
  for (const Splitter::Part& p : parts) {
    const NicPair nics{p.nic, p.nic};
    const double at_s = faults ? in_units(message, &nics, p.bytes) : part(message, nics, p.bytes);
    arrival_s = std::max(arrival_s, at_s);
  }
  return arrival_s;
}

double MultiPort::by_gpus(const Message& message) {
  const Side out = out_side(message);
  const Side in = in_side(message);
  double& paced_s = paced_until_s_[message.from];
  paced_s = std::max(paced_s, message.ready_s) + message.bytes * pace_s_per_byte_[message.from];
  Use sent{kNever, 0};
  for (const Splitter::Part& p : out_of_gpu_.split(message.from, message.bytes)) {
    const Use use = leave(message, out, p.nic, p.bytes);
    sent = {std::min(sent.begin_s, use.begin_s), std::max(sent.end_s, use.end_s)};
  }
  double arrival_s = 0;
  for (const Splitter::Part& p : into_gpu_.split(message.to, message.bytes)) {
    arrival_s = std::max(arrival_s, arrive(message, in, p.nic, sent, p.bytes));
  }
  return arrival_s;
}

double MultiPort::routed(const Message& message) {
  const Side out = out_side(message);
  const Side in = in_side(message);
  const std::uint32_t units = units_in(message.bytes);
  const double bytes = message.bytes / units;
  double arrival_s = 0;
  for (std::uint32_t i = 0; i < units; ++i) {
    const Use sent = leave(message, out, quickest(out, message.ready_s, bytes), bytes);
    arrival_s =
        std::max(arrival_s, arrive(message, in, quickest(in, sent.begin_s + cluster_.alpha_s, bytes), sent, bytes));
  }
  return arrival_s;
}

// The NIC that ends a unit first, then the lowest.
std::uint32_t MultiPort::quickest(const Side& side, double ready_s, double bytes) const {
  std::uint32_t best = 0;
  double best_s = kNever;
  for (std::uint32_t nic = 0; nic < cluster_.nics; ++nic) {
    const double end_s = std::max(side.free_s[nic], ready_s) + bytes * side.seconds_per_byte[nic];
    best = end_s < best_s ? nic : best;
    best_s = std::min(end_s, best_s);
  }
  return best;
}

double MultiPort::part(const Message& message, NicPair nics, double bytes) {
  return arrive(message, in_side(message), nics.in, leave(message, out_side(message), nics.out, bytes), bytes);
}

// Occupies the fabric ports of both GPUs, cut-through; the end is the arrival. `ready_s` may lie ahead of the
// hand-over, where the NIC of another server begins to receive. So these ports are no queues but backlogs: work is
// added when it is handed over, and no time is lost before it begins.
Use MultiPort::cross(const Message& message, std::uint32_t from, std::uint32_t to, double ready_s, double bytes) {
  const double busy_s = bytes * intra_seconds_per_byte_;
  const double from_s = std::min(ready_s, message.now_s);
  FabricPort& out = fabric_out_[from];
  FabricPort& in = fabric_in_[to];
  out.add(from_s, busy_s);
  in.add(from_s, busy_s);
  const double end_s = std::max({ready_s + busy_s, out.free_s, in.free_s}) + cluster_.intra_alpha_s;
  return {end_s - busy_s, end_s};
}

// The NIC serves others while the bytes cross the fabric: its time is taken as if they were there, only their end is
// later.
Use MultiPort::leave(const Message& message, const Side& side, std::uint32_t nic, double bytes) {
  const double begin_s = std::max(side.free_s[nic], message.ready_s);
  const double busy_s = bytes * side.seconds_per_byte[nic] + cluster_.port_cost_s;
  side.free_s[nic] = begin_s + busy_s;
  note(message, side, nic, {begin_s, begin_s + busy_s}, bytes);
  if (cluster_.gpus == 1 || routes_.owns(side.gpu, nic)) return {begin_s, begin_s + busy_s};
  const Use crossed =
      cross(message, message.from, side.server * cluster_.gpus + routes_.owner(nic), message.ready_s, bytes);
  return {begin_s, std::max(begin_s, crossed.begin_s) + busy_s};
}

double MultiPort::arrive(const Message& message, const Side& side, std::uint32_t nic, Use sent, double bytes) {
  const double begin_s = std::max(side.free_s[nic], std::min(sent.begin_s, message.now_s) + cluster_.alpha_s);
  const double busy_until_s = begin_s + bytes * side.seconds_per_byte[nic] + cluster_.port_cost_s;
  side.free_s[nic] = busy_until_s;
  note(message, side, nic, {begin_s, busy_until_s}, bytes);
  const double end_s = std::max(busy_until_s, sent.end_s + cluster_.alpha_s);
  if (cluster_.gpus == 1 || routes_.owns(side.gpu, nic)) return end_s;
  const Use crossed = cross(message, side.server * cluster_.gpus + routes_.owner(nic), message.to, begin_s, bytes);
  return std::max(crossed.end_s, end_s + cluster_.intra_alpha_s);
}

double MultiPort::poured(const Message& message) {
  const Use sent = pour(message, out_side(message), message.ready_s);
  const Use received = pour(message, in_side(message), sent.begin_s + cluster_.alpha_s);
  return std::max(received.end_s, sent.end_s + cluster_.alpha_s);
}

// Divides the bytes so that all NICs that take part end at the same time: those that are free too late take none.
Use MultiPort::pour(const Message& message, const Side& side, double ready_s) {
  const double* const rate = cluster_.rate.data() + std::size_t{side.server} * cluster_.nics;
  double latest_s = 0;
  for (std::uint32_t k = 0; k < cluster_.nics; ++k) {
    start_s_[k] = std::max(side.free_s[k], ready_s);
    latest_s = std::max(latest_s, start_s_[k]);
  }
  double end_s = kNever;
  for (double previous_s = kNever; latest_s >= end_s || end_s == kNever; previous_s = end_s) {
    double sum = 0;
    double offset = message.bytes;
    for (std::uint32_t k = 0; k < cluster_.nics; ++k) {
      const double usable = start_s_[k] < end_s ? rate[k] : 0;
      sum += usable;
      offset += usable * start_s_[k];
    }
    end_s = offset / sum;
    if (!(end_s < previous_s)) break;
  }
  Use use{kNever, end_s};
  for (std::uint32_t k = 0; k < cluster_.nics; ++k) {
    const double bytes = (end_s - start_s_[k]) * rate[k];
    if (!(bytes > 0)) continue;
    const double free_s = end_s + std::max(1.0, bytes / kLargestUnit) * cluster_.port_cost_s;
    use.begin_s = std::min(use.begin_s, start_s_[k]);
    use.end_s = std::max(use.end_s, free_s);
    note(message, side, k, {start_s_[k], free_s}, bytes);
    side.free_s[k] = free_s;
  }
  return use;
}

void MultiPort::draw(const Message& message, const Side& side, std::uint32_t nic, Use use) {
  options_.occupancy->push_back({.server = side.server,
                                 .nic = nic,
                                 .outgoing = side.outgoing,
                                 .begin_s = use.begin_s,
                                 .end_s = use.end_s,
                                 .peer_server = server_of_[side.outgoing ? message.to : message.from],
                                 .span = message.span,
                                 .segment = message.segment});
}

}  // namespace r2ccl::sim
