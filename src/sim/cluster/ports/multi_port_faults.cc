// Messages while NICs are lost or change their rate: everything goes in units, so that a loss costs the units under way
// only.

#include <algorithm>
#include <cmath>

#include "sim/cluster/ports/multi_port.h"

namespace r2ccl::sim {

double MultiPort::in_units(const Message& message, const NicPair* planned, double bytes) {
  const double units = std::max(1.0, std::ceil(bytes / kLargestUnit));
  double arrival_s = 0;
  for (double i = 0; i < units; ++i) arrival_s = std::max(arrival_s, unit(message, planned, bytes / units));
  return arrival_s;
}

// When the unit has arrived. It is sent again, after the repair, until both NICs live to the end of it.
double MultiPort::unit(const Message& message, const NicPair* planned, double bytes) {
  const Side out = out_side(message);
  const Side in = in_side(message);
  for (double ready_s = message.ready_s;;) {
    const auto nics = choose(out, in, planned, ready_s, bytes);
    if (!nics) return no_route(message);
    const double out_s = start_s(out, nics->out, crossed_s(message, out, nics->out, ready_s, bytes), bytes);
    const NicRates::Service sent = serve(out, nics->out, out_s, bytes);
    const double in_s = start_s(in, nics->in, out_s + cluster_.alpha_s, bytes);
    const NicRates::Service received = serve(in, nics->in, in_s, bytes);
    const double lost_s = std::min(sent.lost_at_s, received.lost_at_s);
    if (lost_s < kNever) {
      book(out, nics->out, {out_s, std::min(sent.end_s, std::max(out_s, lost_s))});
      ready_s = std::max(ready_s, lost_s + options_.repair_s);
      continue;
    }
    const Use out_use{out_s, sent.end_s + cluster_.port_cost_s};
    const Use in_use{in_s, received.end_s + cluster_.port_cost_s};
    book(out, nics->out, out_use);
    book(in, nics->in, in_use);
    note(message, out, nics->out, out_use, bytes);
    note(message, in, nics->in, in_use, bytes);
    return crossed_s(message, in, nics->in, std::max(in_use.end_s, out_use.end_s + cluster_.alpha_s), bytes);
  }
}

// The earliest time from which the NIC has room for the unit.
double MultiPort::start_s(const Side& side, std::uint32_t nic, double ready_s, double bytes) const {
  const double begin_s = std::max(side.gap[nic].begin_s, ready_s);
  if (begin_s < side.gap[nic].end_s) {
    const double end_s = serve(side, nic, begin_s, bytes).end_s + cluster_.port_cost_s;
    if (end_s <= side.gap[nic].end_s) return begin_s;
  }
  return std::max(side.free_s[nic], ready_s);
}

void MultiPort::book(const Side& side, std::uint32_t nic, Use use) {
  Use& gap = side.gap[nic];
  double& free_s = side.free_s[nic];
  if (use.begin_s < free_s) {
    gap.begin_s = use.end_s;
    return;
  }
  if (use.begin_s - free_s > gap.end_s - gap.begin_s) gap = {free_s, use.begin_s};
  free_s = use.end_s;
}

// When the bytes are on the other side of the server's fabric, if they have to cross it between this GPU and this NIC.
double MultiPort::crossed_s(const Message& message, const Side& side, std::uint32_t nic, double ready_s, double bytes) {
  if (cluster_.gpus == 1 || routes_.owns(side.gpu, nic)) return ready_s;
  const std::uint32_t other = side.server * cluster_.gpus + routes_.owner(nic);
  return (side.outgoing ? cross(message, message.from, other, ready_s, bytes)
                        : cross(message, other, message.to, ready_s, bytes))
      .end_s;
}

NicRates::Service MultiPort::serve(const Side& side, std::uint32_t nic, double begin_s, double bytes) const {
  const std::uint32_t number = side.server * cluster_.nics + nic;
  if (rates_.at(number, begin_s) <= 0) return {kNever, begin_s};
  return rates_.serve(number, begin_s, bytes);
}

// When the NIC would end the unit, by what is known when it starts: a NIC that will be lost looks like any other.
// kNever: it is lost already.
Use MultiPort::estimate(const Side& side, std::uint32_t nic, double ready_s, double bytes) const {
  const double extra_s = cluster_.gpus == 1 || routes_.owns(side.gpu, nic) ? 0 : crossing_s(bytes);
  const double begin_s = start_s(side, nic, ready_s + (side.outgoing ? extra_s : 0), bytes);
  const double rate = rates_.at(side.server * cluster_.nics + nic, begin_s);
  return {begin_s, rate > 0 ? begin_s + bytes / rate + (side.outgoing ? 0 : extra_s) : kNever};
}

std::optional<NicPair> MultiPort::choose(const Side& out, const Side& in, const NicPair* planned, double ready_s,
                                         double bytes) const {
  const auto end_of = [&](NicPair nics) {
    const Use sent = estimate(out, nics.out, ready_s, bytes);
    return sent.end_s == kNever
               ? kNever
               : std::max(sent.end_s, estimate(in, nics.in, sent.begin_s + cluster_.alpha_s, bytes).end_s);
  };
  if (planned != nullptr && end_of(*planned) < kNever) return *planned;
  std::optional<NicPair> best;
  double best_s = kNever;
  const auto consider = [&](NicPair nics, double end_s) {
    if (end_s < best_s) {
      best = nics;
      best_s = end_s;
    }
  };
  if (cluster_.fabric == Fabric::kRails) {
    for (std::uint32_t k = 0; k < cluster_.nics; ++k) consider({k, k}, end_of({k, k}));
    return best;
  }
  for (std::uint32_t k = 0; k < cluster_.nics; ++k) consider({k, 0}, estimate(out, k, ready_s, bytes).end_s);
  if (!best) return best;
  const std::uint32_t from = best->out;
  const double first_byte_s = estimate(out, from, ready_s, bytes).begin_s + cluster_.alpha_s;
  best.reset();
  best_s = kNever;
  for (std::uint32_t k = 0; k < cluster_.nics; ++k) consider({from, k}, estimate(in, k, first_byte_s, bytes).end_s);
  return best;
}

}  // namespace r2ccl::sim
