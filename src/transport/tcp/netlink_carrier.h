#pragma once
// Learns from the kernel's routing socket when a NIC loses its carrier or its address, which is much sooner than
// sockets notice. Only real interfaces are watched: a NIC with a loopback address, or none in particular, has no
// carrier.
//
// Threads    The driver's, as transport/link.h says.
// Failure    Where there is no routing socket or it is not allowed, watching is off and status() says so in one
//            sentence; paths are then judged by their sockets alone.

#include <array>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "topology/nic.h"
#include "transport/link.h"
#include "transport/tcp/poller.h"

namespace r2ccl {

// What is known about the carrier of each NIC, as a value without I/O; NetlinkCarrier feeds it.
//
//   up = the interface exists, is up, has a carrier (or nothing was heard yet), and has the NIC's address
class CarrierBook final {
 public:
  static constexpr std::size_t kEventsMax = 1024;  // waiting for next_event(); beyond this the oldest is dropped

  explicit CarrierBook(std::span<const Nic> nics);
  void on_link(std::string_view interface, bool up);
  void on_address(const Address& address, bool present);
  std::optional<NicEvent> next_event();
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    NicId nic;
    std::string interface;
    Address address;
    bool link_up = true;
    bool has_address = true;
    bool told_up = true;
  };
  void tell(Entry& entry);

  std::vector<Entry> entries_;
  std::deque<NicEvent> events_;
};

class NetlinkCarrier final : private ReadyHandler {
 public:
  static constexpr int kReadsPerStep = 64;

  // Borrows the poller until destroyed.
  NetlinkCarrier(Poller& poller, std::span<const Nic> nics);
  ~NetlinkCarrier() override;
  NetlinkCarrier(const NetlinkCarrier&) = delete;
  NetlinkCarrier& operator=(const NetlinkCarrier&) = delete;

  // Reads what the kernel said, bounded. True if there may be more.
  bool step();
  std::optional<NicEvent> next_event() { return book_.next_event(); }
  const std::string& status() const { return status_; }  // empty: watching, or there is nothing to watch

 private:
  void open();
  void ask_for_links();
  void on_ready(std::uint32_t events) override;
  void read_messages(std::size_t bytes);

  Poller& poller_;
  Poller::Token token_ = Poller::kNoToken;
  CarrierBook book_;
  Fd socket_;
  alignas(8) std::array<std::byte, 32 * 1024> buffer_;  // as much as the kernel puts into one datagram
  std::string status_;
  bool readable_ = false;
};

}  // namespace r2ccl
