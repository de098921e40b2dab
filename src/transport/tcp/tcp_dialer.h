#pragma once
// Makes TCP connections from and to the NICs of this server, and holds the epoll that knows which are ready.
//
// Threads    One driver at a time, as transport/link.h says; wake() from any thread.
// Ownership  Owns listeners, the epoll and the routing socket. Streams belong to the caller and must go first.
// Failure    If the NIC is why a connection can not start (its address or interface is gone), connect() returns a
//            stream that is already down with its cause. Running out of descriptors or ports is kBusy, because nothing
//            is wrong with the NIC. On the accepting side the connection is then closed and counted; running
//            connections do not notice.

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "env/waiter.h"
#include "transport/stream/stream.h"
#include "transport/tcp/netlink_carrier.h"
#include "transport/tcp/poller.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp_stream.h"

namespace r2ccl {

struct TcpCounters {
  std::uint64_t connects = 0;
  std::uint64_t accepts = 0;
  std::uint64_t out_of_descriptors = 0;  // inbound connections closed unread because no descriptor was left
};

class TcpDialer final : public Dialer, public Waiter {
 public:
  static constexpr int kBacklog = 1024;
  static constexpr int kAcceptsPerStep = 64;            // per listener
  static constexpr std::size_t kAcceptQueueMax = 1024;  // waiting for accept(); beyond this they wait in the kernel

  static Result<std::unique_ptr<TcpDialer>> open(std::vector<Nic> nics, const TcpConfig& config);
  ~TcpDialer() override;
  TcpDialer(const TcpDialer&) = delete;
  TcpDialer& operator=(const TcpDialer&) = delete;

  std::span<const Nic> nics() const override { return nics_; }
  Result<Address> listen(NicId nic, std::uint16_t port) override;
  Result<std::unique_ptr<Stream>> connect(NicId nic, const Address& remote) override;
  std::unique_ptr<Stream> accept() override;
  std::optional<NicEvent> next_event() override { return carrier_->next_event(); }
  bool step(Instant now) override;

  bool poll() override { return shared_.poller.poll(); }
  void wait(Instant now, Instant until) override { shared_.poller.wait(now, until); }
  void wake() override { shared_.poller.wake(); }

  // For fault injection: while on, every socket of the NIC, listeners and later connections included, drops what
  // arrives and sends nothing new.
  void deafen_nic(NicId nic, bool on);

  const TcpCounters& counters() const { return counters_; }
  // Empty, or one sentence for the log: why carrier changes of the NICs are not seen.
  const std::string& carrier_status() const { return carrier_->status(); }

 private:
  struct Listener;
  TcpDialer(std::vector<Nic> nics, const TcpConfig& config);
  const Nic* find_nic(NicId id) const;
  bool accept_from(Listener& listener);
  bool accept_one(Listener& listener);
  void shed_one(Listener& listener);

  const std::vector<Nic> nics_;
  const TcpConfig config_;
  TcpCounters counters_;
  TcpShared shared_;
  std::unique_ptr<NetlinkCarrier> carrier_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::deque<std::unique_ptr<TcpStream>> accepted_;
  std::array<bool, 256> deaf_nics_{};
  Fd spare_;  // given up for a moment to accept and close a connection when no descriptor is left
};

}  // namespace r2ccl
