#include "sim/net/wires/sim_network.h"

#include <algorithm>

#include "sim/net/wires/sim_connection.h"
#include "sim/net/wires/sim_dialer.h"

namespace r2ccl::sim {

namespace {
constexpr Duration kInsideServerDelay = 10us;
constexpr Duration kCarrierNotice = 200us;  // from the cable to the process
constexpr std::size_t kPacketOverheadBytes = 66;
constexpr std::uint32_t kUp = 1u << 31;

std::uint8_t server_of(const Address& address) {
  return address.ip[13];
}
std::uint8_t nic_of(const Address& address) {
  return address.ip[14];
}
}  // namespace

Address address_of(NicRef nic) {
  return Address::v4(10, nic.server, nic.nic, 1);
}

Network::Network(SimWorld& world, const NetworkConfig& config, std::size_t servers, std::size_t nics_per_server)
    : world_(world), config_(config), servers_(servers), nics_per_server_(nics_per_server) {
  world_.enrol(*this);
  nics_.resize(servers * nics_per_server);
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    nics_[i].ref = {static_cast<std::uint8_t>(i / nics_per_server), static_cast<std::uint8_t>(i % nics_per_server)};
    nics_[i].rate_bytes_s = config.rate_bytes_s;
  }
}

Network::~Network() = default;

void Network::set_carrier(NicRef ref, bool up) {
  SimNicState& state = nic(ref);
  if (state.carrier == up) return;
  state.carrier = up;
  world_.after(kCarrierNotice, *this, kCarrierEvent, static_cast<std::uint32_t>(index_of(ref)) | (up ? kUp : 0));
}

void Network::set_pair_loss(NicRef from, NicRef to, double loss) {
  if (loss == 0) {
    pair_loss_.erase({from, to});
  } else {
    pair_loss_[{from, to}] = loss;
  }
}

void Network::cut(NicRef a, NicRef b, Duration notice_a, Duration notice_b, bool late_prefix) {
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = *connections_[i];
    if (connection.severed()) continue;
    if (connection.nic(0) == a && connection.nic(1) == b) connection.cut(notice_a, notice_b, late_prefix);
    if (connection.nic(0) == b && connection.nic(1) == a) connection.cut(notice_b, notice_a, late_prefix);
  }
}

void Network::drop_process(SimDialer& dialer, bool abortive) {
  std::erase_if(listeners_, [&](const auto& entry) { return entry.second == &dialer; });
  dialer.forget_backlog();
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    for (int side : {0, 1}) {
      Connection::End& end = connections_[i]->end(side);
      if (end.dialer != &dialer) continue;
      if (!end.closed) connections_[i]->close(side, abortive);
      end.dialer = nullptr;
    }
  }
  std::erase(dialers_, &dialer);
}

bool Network::loses(NicRef from, NicRef to) {
  if (from.server == to.server) return false;
  if (to.server >= servers_ || to.nic >= nics_per_server_) return true;
  const SimNicState& out = nic(from);
  const SimNicState& in = nic(to);
  bool lost = !out.carrier || !in.carrier || out.dead || in.dead;
  if (config_.fabric == Fabric::kRails && from.nic != to.nic) lost = true;
  double loss = std::max(out.transmit_loss, in.receive_loss);
  if (!pair_loss_.empty()) {
    const auto found = pair_loss_.find({from, to});
    if (found != pair_loss_.end()) loss = std::max(loss, found->second);
  }
  if (!lost && loss > 0) lost = loss >= 1 || world_.random().chance(loss);
  packets_lost_ += lost ? 1 : 0;
  return lost;
}

Duration Network::delay(NicRef from, NicRef to) {
  if (from.server == to.server) return kInsideServerDelay;
  Duration total = config_.delay + nic(from).extra_delay + nic(to).extra_delay;
  if (config_.jitter > 0) {
    const auto most = static_cast<std::uint64_t>(static_cast<double>(config_.delay.count()) * config_.jitter);
    total += Duration(world_.random().below(most + 1));
  }
  return total;
}

Duration Network::transfer_time(const SimNicState& state, std::size_t bytes) {
  return Duration(
      static_cast<Duration::rep>(static_cast<double>(bytes + kPacketOverheadBytes) / state.rate_bytes_s * 1e9));
}

void Network::request_transmit(Pipe& pipe) {
  if (pipe.on_nic_queue || !pipe.wants_to_send()) return;
  SimNicState& state = nic(pipe.from());
  pipe.on_nic_queue = true;
  state.waiting.push_back(&pipe);
  pump(state);
}

void Network::withdraw(Pipe& pipe) {
  if (!pipe.on_nic_queue) return;
  std::erase(nic(pipe.from()).waiting, &pipe);
  pipe.on_nic_queue = false;
}

void Network::pump(SimNicState& state) {
  while (!state.waiting.empty() && state.transmit_free <= world_.now()) {
    Pipe& pipe = *state.waiting.front();
    state.waiting.pop_front();
    pipe.on_nic_queue = false;
    if (!pipe.wants_to_send()) continue;
    const Segment segment = pipe.next_segment(world_.now());
    const Duration time = transfer_time(state, segment.bytes);
    state.transmit_free = world_.now() + time;
    pipe.launch(segment, state.transmit_free, segment.bytes);
    if (pipe.wants_to_send()) {
      pipe.on_nic_queue = true;
      state.waiting.push_back(&pipe);
    }
  }
  if (!state.waiting.empty() && !state.pump_scheduled) {
    state.pump_scheduled = true;
    world_.at(state.transmit_free, *this, kPump, static_cast<std::uint32_t>(index_of(state.ref)));
  }
}

Connection& Network::open(SimDialer& from, NicRef from_nic, const Address& to) {
  // An address nobody has leads to a NIC that does not answer.
  const NicRef to_nic{server_of(to), nic_of(to)};
  connections_.push_back(std::make_unique<Connection>(*this, from, from_nic, to, to_nic));
  return *connections_.back();
}

SimDialer* Network::listener(const Address& address) const {
  const auto found = listeners_.find(address);
  return found == listeners_.end() ? nullptr : found->second;
}

void Network::on_event(std::uint32_t kind, std::uint32_t argument) {
  SimNicState& state = nics_[argument & ~kUp];
  if (kind == kPump) {
    state.pump_scheduled = false;
    pump(state);
    return;
  }
  for (SimDialer* dialer : dialers_) {
    if (dialer->server() == state.ref.server) dialer->on_carrier({state.ref.nic}, (argument & kUp) != 0);
  }
}

}  // namespace r2ccl::sim
