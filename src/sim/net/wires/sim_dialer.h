#pragma once
// Stream and Dialer over the simulated network: what transport/tcp is over the real one.

#include <deque>
#include <memory>

#include "sim/net/wires/sim_connection.h"
#include "transport/stream/stream.h"

namespace r2ccl::sim {

// A program's handle on its end of a connection. Closing or destroying it closes that end; the connection belongs to
// the network.
class SimStream final : public Stream {
 public:
  SimStream(Connection& connection, int side) : connection_(connection), side_(side) {}
  ~SimStream() override;

  LinkState state() const override { return connection_.end(side_).state; }
  Cause cause() const override { return connection_.end(side_).cause; }
  const std::string& error() const override { return connection_.end(side_).error; }
  NicId nic() const override { return {connection_.nic(side_).nic}; }
  Io write(std::span<const ByteView> parts) override { return connection_.write(side_, parts); }
  Io read(std::span<const ReadPart> parts) override { return connection_.read(side_, parts); }
  bool readable() const override { return connection_.readable(side_); }
  bool writable() const override { return connection_.writable(side_); }
  void close(bool abortive) override { connection_.close(side_, abortive); }
  Progress progress(Instant now) override { return connection_.pipe(side_).progress(now); }
  bool deafen(bool on) override;

 private:
  Connection& connection_;
  const int side_;
};

class SimDialer final : public Dialer {
 public:
  // The NICs of `server`. `process` is woken when something is ready; set before the first event.
  SimDialer(Network& network, std::uint8_t server);
  ~SimDialer() override;
  void set_process(ProcessIndex process) { process_ = process; }

  std::span<const Nic> nics() const override { return nics_; }
  Result<Address> listen(NicId nic, std::uint16_t port) override;
  Result<std::unique_ptr<Stream>> connect(NicId nic, const Address& remote) override;
  std::unique_ptr<Stream> accept() override;
  std::optional<NicEvent> next_event() override;
  bool step(Instant now) override;

  // ---- used by the network ----
  std::uint8_t server() const { return server_; }
  void notice();  // something is ready
  void on_carrier(NicId nic, bool up);
  bool offer(Connection& connection);  // false: the backlog is full
  void forget_backlog() { backlog_.clear(); }

 private:
  Network& network_;
  const std::uint8_t server_;
  ProcessIndex process_ = 0;
  std::vector<Nic> nics_;
  std::deque<Connection*> backlog_;
  std::deque<NicEvent> events_;
  bool ready_ = false;
};

}  // namespace r2ccl::sim
