#pragma once
// What lies between servers: NICs with finite rates, delays and losses, through which connections (sim_connection.h)
// send their packets.
//
// A NIC serves its connections in turn, one segment each, at its rate; the receiving NIC has a rate too. Packets of one
// connection and direction keep their order; between connections there is none. Traffic inside a server never fails.

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/address.h"
#include "sim/net/sim_world.h"
#include "topology/nic.h"

namespace r2ccl::sim {

class Connection;
class Pipe;
class SimDialer;

struct NicRef {
  std::uint8_t server = 0;
  std::uint8_t nic = 0;
  friend auto operator<=>(NicRef, NicRef) = default;
};

Address address_of(NicRef nic);

// Manners of the network and the kernels in it. The defaults are polite; a scenario draws its own.
struct NetworkConfig {
  Fabric fabric = Fabric::kRouted;
  double rate_bytes_s = 100e6;
  Duration delay = 50us;  // one way
  double jitter = 0;      // delay × (1 + jitter × chance)
  std::size_t send_buffer = 256 * 1024;
  std::size_t receive_buffer = 256 * 1024;
  std::size_t segment_bytes = 8 * 1024;
  std::size_t backlog = 128;  // connections not yet taken by accept()
  bool split_reads = false;   // a read may give any part of what is there
  bool split_writes = false;  // a write may take any part of what fits, and then block for a moment
};

struct SimNicState {
  NicRef ref;
  bool carrier = true;
  double rate_bytes_s = 0;
  Duration extra_delay{};
  bool dead = false;         // for good, silently
  double transmit_loss = 0;  // 1: nothing goes out
  double receive_loss = 0;
  bool corrupt_header = false;   // the next write on this NIC carries a flipped bit in its first bytes
  bool corrupt_payload = false;  // ... in a part long enough to be payload
  Instant transmit_free{};
  Instant receive_free{};
  bool pump_scheduled = false;
  std::deque<Pipe*> waiting;
};

class Network final : private EventTarget {
 public:
  Network(SimWorld& world, const NetworkConfig& config, std::size_t servers, std::size_t nics_per_server);
  ~Network() override;

  SimWorld& world() { return world_; }
  const NetworkConfig& config() const { return config_; }
  SimNicState& nic(NicRef ref) { return nics_[ref.server * nics_per_server_ + ref.nic]; }
  std::size_t servers() const { return servers_; }
  std::size_t nics_per_server() const { return nics_per_server_; }

  // ---- faults ----
  void set_carrier(NicRef nic, bool up);                    // tells the processes of that server
  void set_pair_loss(NicRef from, NicRef to, double loss);  // one direction between two NICs
  void cut(NicRef a, NicRef b, Duration notice_a, Duration notice_b,
           bool late_prefix);                           // kNeverNotices: that end is not told
  void drop_process(SimDialer& dialer, bool abortive);  // its kernel closes everything it had
  static constexpr Duration kNeverNotices = Duration::max();

  // ---- used by connections and dialers ----
  bool loses(NicRef from, NicRef to);  // draws; true: this packet is gone
  Duration delay(NicRef from, NicRef to);
  static Duration transfer_time(const SimNicState& nic_state, std::size_t bytes);
  void request_transmit(Pipe& pipe);
  void withdraw(Pipe& pipe);
  Connection& open(SimDialer& from, NicRef from_nic, const Address& to);
  void attach(SimDialer& dialer) { dialers_.push_back(&dialer); }
  SimDialer* listener(const Address& address) const;
  std::map<Address, SimDialer*>& listeners() { return listeners_; }
  std::uint16_t next_port() { return next_port_++; }
  const std::vector<std::unique_ptr<Connection>>& connections() const { return connections_; }
  std::uint64_t packets_lost() const { return packets_lost_; }

 private:
  enum Kind : std::uint32_t { kPump, kCarrierEvent };
  void on_event(std::uint32_t kind, std::uint32_t argument) override;
  void pump(SimNicState& nic_state);
  std::size_t index_of(NicRef ref) const { return ref.server * nics_per_server_ + ref.nic; }

  SimWorld& world_;
  NetworkConfig config_;
  std::size_t servers_;
  std::size_t nics_per_server_;
  std::vector<SimNicState> nics_;
  std::map<std::pair<NicRef, NicRef>, double> pair_loss_;
  std::vector<SimDialer*> dialers_;
  std::map<Address, SimDialer*> listeners_;
  std::uint16_t next_port_ = 1000;
  std::uint64_t packets_lost_ = 0;
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace r2ccl::sim
