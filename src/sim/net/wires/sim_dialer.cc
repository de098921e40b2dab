#include "sim/net/wires/sim_dialer.h"

#include <utility>

namespace r2ccl::sim {

SimStream::~SimStream() {
  connection_.close(side_, false);
}

bool SimStream::deafen(bool on) {
  connection_.end(side_).deaf = on;
  return true;
}

SimDialer::SimDialer(Network& network, std::uint8_t server) : network_(network), server_(server) {
  const auto nics = static_cast<std::uint8_t>(network.nics_per_server());
  for (std::uint8_t i = 0; i < nics; ++i) {
    const SimNicState& state = network.nic({server, i});
    nics_.push_back({.id = {i},
                     .name = "sim" + std::to_string(i),
                     .address = address_of({server, i}),
                     .speed_bytes_s = static_cast<std::uint64_t>(state.rate_bytes_s),
                     .carrier = state.carrier});
  }
  network_.attach(*this);
}

SimDialer::~SimDialer() {
  network_.drop_process(*this, true);
}

Result<Address> SimDialer::listen(NicId nic, std::uint16_t port) {
  if (nic.value >= nics_.size()) return fail(Fault::kMisuse, "server has no NIC " + std::to_string(nic.value));
  Address address = address_of({server_, nic.value});
  address.port = port != 0 ? port : network_.next_port();
  if (!network_.listeners().emplace(address, this).second) {
    return fail(Fault::kMisuse, "address " + to_text(address) + " is in use");
  }
  return address;
}

Result<std::unique_ptr<Stream>> SimDialer::connect(NicId nic, const Address& remote) {
  if (nic.value >= nics_.size()) return fail(Fault::kMisuse, "server has no NIC " + std::to_string(nic.value));
  if (!network_.nic({server_, nic.value}).carrier && remote.ip[13] != server_) {
    return fail(Fault::kPathDown, "NIC " + nics_[nic.value].name + " has no carrier: network is unreachable");
  }
  return std::make_unique<SimStream>(network_.open(*this, {server_, nic.value}, remote), 0);
}

std::unique_ptr<Stream> SimDialer::accept() {
  if (backlog_.empty()) return nullptr;
  Connection& connection = *backlog_.front();
  backlog_.pop_front();
  return std::make_unique<SimStream>(connection, 1);
}

std::optional<NicEvent> SimDialer::next_event() {
  if (events_.empty()) return std::nullopt;
  const NicEvent event = events_.front();
  events_.pop_front();
  return event;
}

bool SimDialer::step(Instant) {
  return std::exchange(ready_, false);
}

void SimDialer::notice() {
  ready_ = true;
  network_.world().wake(process_);
}

void SimDialer::on_carrier(NicId nic, bool up) {
  nics_[nic.value].carrier = up;
  events_.push_back({nic, up});
  notice();
}

bool SimDialer::offer(Connection& connection) {
  if (backlog_.size() >= network_.config().backlog) return false;
  backlog_.push_back(&connection);
  notice();
  return true;
}

}  // namespace r2ccl::sim
