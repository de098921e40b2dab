#include "transport/tcp/netlink_carrier.h"

#include <fmt/format.h>
// The C library's header comes first, because the kernel's then leaves out what both declare.
#include <net/if.h>

#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

namespace r2ccl {

CarrierBook::CarrierBook(std::span<const Nic> nics) {
  for (const Nic& nic : nics) {
    if (nic.address.is_loopback() || nic.address.is_unspecified()) continue;
    entries_.push_back({.nic = nic.id, .interface = nic.name, .address = nic.address});
  }
}

void CarrierBook::on_link(std::string_view interface, bool up) {
  for (Entry& entry : entries_) {
    if (entry.interface != interface) continue;
    entry.link_up = up;
    tell(entry);
  }
}

void CarrierBook::on_address(const Address& address, bool present) {
  for (Entry& entry : entries_) {
    if (entry.address.ip != address.ip) continue;
    entry.has_address = present;
    tell(entry);
  }
}

void CarrierBook::tell(Entry& entry) {
  const bool up = entry.link_up && entry.has_address;
  if (up == entry.told_up) return;
  entry.told_up = up;
  if (events_.size() == kEventsMax) events_.pop_front();
  events_.push_back({entry.nic, up});
}

std::optional<NicEvent> CarrierBook::next_event() {
  if (events_.empty()) return std::nullopt;
  const NicEvent event = events_.front();
  events_.pop_front();
  return event;
}

NetlinkCarrier::NetlinkCarrier(Poller& poller, std::span<const Nic> nics) : poller_(poller), book_(nics) {
  if (!book_.empty()) open();
}

NetlinkCarrier::~NetlinkCarrier() {
  if (socket_) poller_.remove(socket_.get(), token_);
}

void NetlinkCarrier::open() {
  const auto give_up = [this](const char* what, int error) {
    status_ = fmt::format("carrier changes are not watched: {}: {}", what, std::generic_category().message(error));
    socket_ = Fd();
  };
  socket_ = Fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!socket_) return give_up("routing socket", errno);
  sockaddr_nl here{};
  here.nl_family = AF_NETLINK;
  here.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0)
    return give_up("routing socket groups", errno);
  if (const int error = poller_.add(socket_.get(), EPOLLIN | EPOLLET, *this, token_))
    return give_up("routing socket", error);
  ask_for_links();
}

// Asks for the present state, at the start and after the kernel dropped messages. Answers arrive like notifications.
void NetlinkCarrier::ask_for_links() {
  struct {
    nlmsghdr header;
    rtgenmsg body;
  } request{};
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof request.body);
  request.header.nlmsg_type = RTM_GETLINK;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.rtgen_family = AF_UNSPEC;
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  ::sendto(socket_.get(), &request, request.header.nlmsg_len, MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&kernel),
           sizeof kernel);
}

void NetlinkCarrier::on_ready(std::uint32_t /*events*/) {
  readable_ = true;
}

bool NetlinkCarrier::step() {
  for (int i = 0; readable_ && i < kReadsPerStep; ++i) {
    sockaddr_nl from{};
    socklen_t length = sizeof from;
    const ssize_t got =
        ::recvfrom(socket_.get(), buffer_.data(), buffer_.size(), 0, reinterpret_cast<sockaddr*>(&from), &length);
    if (got >= 0) {
      if (from.nl_pid == 0) read_messages(static_cast<std::size_t>(got));  // only the kernel is believed
    } else if (errno == EAGAIN) {
      readable_ = false;
    } else if (errno == ENOBUFS) {  // messages were lost
      ask_for_links();
    } else if (errno != EINTR) {
      status_ = fmt::format("carrier changes are no longer watched: {}", std::generic_category().message(errno));
      poller_.remove(socket_.get(), token_);
      socket_ = Fd();
      readable_ = false;
    }
  }
  return readable_;
}

namespace {

// The fixed part and the attributes of one message.
template <class Info>
struct NetlinkMessage {
  const Info* info = nullptr;
  const std::byte* attributes = nullptr;
  std::size_t bytes = 0;

  static std::optional<NetlinkMessage> read(const nlmsghdr& header) {
    if (header.nlmsg_len < NLMSG_LENGTH(sizeof(Info))) return std::nullopt;
    const auto* start = reinterpret_cast<const std::byte*>(&header);
    const std::size_t skipped = NLMSG_SPACE(sizeof(Info));
    NetlinkMessage message{reinterpret_cast<const Info*>(start + NLMSG_HDRLEN), start + skipped, 0};
    if (header.nlmsg_len > skipped) message.bytes = header.nlmsg_len - skipped;
    return message;
  }
  // Empty: the message has no such attribute.
  std::span<const std::byte> find(unsigned short type) const {
    const std::byte* at = attributes;
    for (std::size_t left = bytes; left >= sizeof(rtattr);) {
      const auto* one = reinterpret_cast<const rtattr*>(at);
      if (one->rta_len < sizeof(rtattr) || one->rta_len > left) break;
      if (one->rta_type == type) return {at + RTA_LENGTH(0), one->rta_len - RTA_LENGTH(0)};
      const std::size_t whole = RTA_ALIGN(one->rta_len);
      if (whole >= left) break;
      at += whole;
      left -= whole;
    }
    return {};
  }
};

void read_link(CarrierBook& book, const nlmsghdr& header) {
  const auto message = NetlinkMessage<ifinfomsg>::read(header);
  if (!message) return;
  const auto name = message->find(IFLA_IFNAME);
  if (name.empty()) return;
  const auto* text = reinterpret_cast<const char*>(name.data());
  const unsigned flags = message->info->ifi_flags;
  const bool up = header.nlmsg_type == RTM_NEWLINK && (flags & IFF_UP) != 0 && (flags & IFF_LOWER_UP) != 0;
  book.on_link({text, ::strnlen(text, name.size())}, up);
}

void read_address(CarrierBook& book, const nlmsghdr& header) {
  const auto message = NetlinkMessage<ifaddrmsg>::read(header);
  if (!message) return;
  // On point-to-point interfaces IFA_ADDRESS is the other end.
  auto value = message->find(IFA_LOCAL);
  if (value.empty()) value = message->find(IFA_ADDRESS);
  const auto* raw = reinterpret_cast<const std::uint8_t*>(value.data());
  Address address;
  if (message->info->ifa_family == AF_INET && value.size() == 4) {
    address = Address::v4(raw[0], raw[1], raw[2], raw[3]);
  } else if (message->info->ifa_family == AF_INET6 && value.size() == 16) {
    std::memcpy(address.ip.data(), raw, 16);
  } else {
    return;
  }
  book.on_address(address, header.nlmsg_type == RTM_NEWADDR);
}

}  // namespace

void NetlinkCarrier::read_messages(std::size_t bytes) {
  const std::byte* at = buffer_.data();
  while (bytes >= sizeof(nlmsghdr)) {
    const auto& header = *reinterpret_cast<const nlmsghdr*>(at);
    if (header.nlmsg_len < sizeof(nlmsghdr) || header.nlmsg_len > bytes) return;
    if (header.nlmsg_type == RTM_NEWLINK || header.nlmsg_type == RTM_DELLINK) read_link(book_, header);
    if (header.nlmsg_type == RTM_NEWADDR || header.nlmsg_type == RTM_DELADDR) read_address(book_, header);
    const std::size_t whole = NLMSG_ALIGN(header.nlmsg_len);
    if (whole >= bytes) return;
    at += whole;
    bytes -= whole;
  }
}

}  // namespace r2ccl
