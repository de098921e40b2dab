#include "transport/tcp/netlink_carrier.h"

#include <fmt/format.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <sys/epoll.h>

#include <cstring>
#include <system_error>

namespace r2ccl {

CarrierBook::CarrierBook(std::span<const Nic> nics) {
  for (const Nic& nic : nics) {
    if (is_loopback(nic.address)) continue;
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

void NetlinkCarrier::SocketDeleter::operator()(nl_sock* socket) const {
  nl_socket_free(socket);
}

NetlinkCarrier::NetlinkCarrier(Poller& poller, std::span<const Nic> nics) : poller_(poller), book_(nics) {
  if (!book_.empty()) open();
}

NetlinkCarrier::~NetlinkCarrier() {
  if (socket_) poller_.remove(nl_socket_get_fd(socket_.get()), token_);
}

void NetlinkCarrier::open() {
  const auto give_up = [this](const char* what, const char* why) {
    status_ = fmt::format("carrier changes are not watched: {}: {}", what, why);
    socket_.reset();
  };
  socket_.reset(nl_socket_alloc());
  if (!socket_) return give_up("routing socket", "out of memory");
  nl_sock* socket = socket_.get();
  nl_socket_disable_seq_check(socket);  // notifications carry no sequence of ours
  nl_socket_disable_auto_ack(socket);
  nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, &NetlinkCarrier::on_message, this);
  if (const int error = nl_connect(socket, NETLINK_ROUTE); error < 0)
    return give_up("routing socket", nl_geterror(error));
  const int joined = nl_socket_add_memberships(socket, RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, 0);
  if (joined < 0) return give_up("routing socket groups", nl_geterror(joined));
  if (const int error = nl_socket_set_nonblocking(socket); error < 0)
    return give_up("routing socket", nl_geterror(error));
  if (const int error = poller_.add(nl_socket_get_fd(socket), EPOLLIN | EPOLLET, *this, token_)) {
    return give_up("routing socket", std::generic_category().message(error).c_str());
  }
  ask_for_links();
}

// The present state, at the start and after the kernel dropped messages; answers arrive like notifications.
void NetlinkCarrier::ask_for_links() {
  rtgenmsg request{.rtgen_family = AF_UNSPEC};
  nl_send_simple(socket_.get(), RTM_GETLINK, NLM_F_DUMP, &request, sizeof request);
}

void NetlinkCarrier::on_ready(std::uint32_t /*events*/) {
  readable_ = true;
}

bool NetlinkCarrier::step() {
  for (int i = 0; readable_ && i < kReadsPerStep; ++i) {
    const int result = nl_recvmsgs_default(socket_.get());
    if (result == -NLE_AGAIN) {
      readable_ = false;
    } else if (result == -NLE_NOMEM) {  // ENOBUFS: messages were lost
      ask_for_links();
    } else if (result < 0 && result != -NLE_INTR && result != -NLE_DUMP_INTR) {
      status_ = fmt::format("carrier changes are no longer watched: {}", nl_geterror(result));
      poller_.remove(nl_socket_get_fd(socket_.get()), token_);
      socket_.reset();
      readable_ = false;
    }
  }
  return readable_;
}

namespace {

void read_link(CarrierBook& book, nlmsghdr* header) {
  if (nlmsg_datalen(header) < static_cast<int>(sizeof(ifinfomsg))) return;
  const auto* info = static_cast<const ifinfomsg*>(nlmsg_data(header));
  const nlattr* name = nlmsg_find_attr(header, sizeof(ifinfomsg), IFLA_IFNAME);
  if (name == nullptr) return;
  const auto length = ::strnlen(static_cast<const char*>(nla_data(name)), static_cast<std::size_t>(nla_len(name)));
  const bool up =
      header->nlmsg_type == RTM_NEWLINK && (info->ifi_flags & IFF_UP) != 0 && (info->ifi_flags & IFF_LOWER_UP) != 0;
  book.on_link({static_cast<const char*>(nla_data(name)), length}, up);
}

void read_address(CarrierBook& book, nlmsghdr* header) {
  if (nlmsg_datalen(header) < static_cast<int>(sizeof(ifaddrmsg))) return;
  const auto* info = static_cast<const ifaddrmsg*>(nlmsg_data(header));
  // On point-to-point interfaces IFA_ADDRESS is the other end.
  const nlattr* value = nlmsg_find_attr(header, sizeof(ifaddrmsg), IFA_LOCAL);
  if (value == nullptr) value = nlmsg_find_attr(header, sizeof(ifaddrmsg), IFA_ADDRESS);
  if (value == nullptr) return;
  const auto* raw = static_cast<const std::uint8_t*>(nla_data(value));
  Address address;
  if (info->ifa_family == AF_INET && nla_len(value) == 4) {
    address = Address::v4(raw[0], raw[1], raw[2], raw[3]);
  } else if (info->ifa_family == AF_INET6 && nla_len(value) == 16) {
    std::memcpy(address.ip.data(), raw, 16);
  } else {
    return;
  }
  book.on_address(address, header->nlmsg_type == RTM_NEWADDR);
}

}  // namespace

int NetlinkCarrier::on_message(nl_msg* message, void* self) {
  nlmsghdr* header = nlmsg_hdr(message);
  CarrierBook& book = static_cast<NetlinkCarrier*>(self)->book_;
  switch (header->nlmsg_type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
      read_link(book, header);
      break;
    case RTM_NEWADDR:
    case RTM_DELADDR:
      read_address(book, header);
      break;
    default:
      break;
  }
  return NL_OK;
}

}  // namespace r2ccl
