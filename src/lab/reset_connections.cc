#include "lab/reset_connections.h"

#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <sys/time.h>

#include <cstring>
#include <memory>
#include <vector>

#include "lab/net_namespace.h"
#include "lab/netlink.h"

namespace r2ccl::lab {
namespace {

using Socket = std::unique_ptr<nl_sock, decltype(&nl_socket_free)>;

constexpr std::uint32_t kConnected = (1u << TCP_ESTABLISHED) | (1u << TCP_SYN_SENT) | (1u << TCP_SYN_RECV) |
                                     (1u << TCP_FIN_WAIT1) | (1u << TCP_FIN_WAIT2) | (1u << TCP_CLOSE_WAIT) |
                                     (1u << TCP_LAST_ACK) | (1u << TCP_CLOSING);

struct Found {
  std::uint8_t family = 0;
  inet_diag_sockid id{};
};

struct Search {
  Address local;
  std::vector<Found> found;
};

Address local_address(const inet_diag_msg& message) {
  Address address;
  if (message.idiag_family == AF_INET) {
    std::uint8_t b[4];
    std::memcpy(b, message.id.idiag_src, 4);
    return Address::v4(b[0], b[1], b[2], b[3]);
  }
  std::memcpy(address.ip.data(), message.id.idiag_src, 16);
  return address;
}

int take(nl_msg* raw, void* argument) {
  auto& search = *static_cast<Search*>(argument);
  const nlmsghdr* const header = nlmsg_hdr(raw);
  if (nlmsg_datalen(header) < static_cast<int>(sizeof(inet_diag_msg))) return NL_OK;
  const auto& message = *static_cast<const inet_diag_msg*>(nlmsg_data(header));
  if (local_address(message).ip == search.local.ip) search.found.push_back({message.idiag_family, message.id});
  return NL_OK;
}

inet_diag_req_v2 request(std::uint8_t family) {
  inet_diag_req_v2 out{};
  out.sdiag_family = family;
  out.sdiag_protocol = IPPROTO_TCP;
  out.idiag_states = kConnected;
  return out;
}

int collect(nl_sock* socket, std::uint8_t family) {
  inet_diag_req_v2 all = request(family);
  const int sent = nl_send_simple(socket, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &all, sizeof all);
  return sent < 0 ? sent : nl_recvmsgs_default(socket);
}

int destroy(nl_sock* socket, const Found& connection) {
  inet_diag_req_v2 one = request(connection.family);
  one.id = connection.id;
  const int sent = nl_send_simple(socket, SOCK_DESTROY, NLM_F_ACK, &one, sizeof one);
  return sent < 0 ? sent : nl_wait_for_ack(socket);
}

}  // namespace

Result<std::size_t> reset_connections(const Fd& name_space, const std::string& where, const Address& local) {
  const auto failed = [&where](int code) {
    return fail(Fault::kBusy, fmt::format("can not reset connections in {}: {}", where, nl_geterror(code)));
  };
  const Socket socket(nl_socket_alloc(), &nl_socket_free);
  if (!socket) return failed(-NLE_NOMEM);
  Search search{.local = local, .found = {}};
  nl_socket_modify_cb(socket.get(), NL_CB_VALID, NL_CB_CUSTOM, &take, &search);
  const Status opened = inside(name_space, [&]() -> Status {
    const int code = nl_connect(socket.get(), NETLINK_SOCK_DIAG);
    if (code < 0) return failed(code);
    return {};
  });
  if (!opened) return std::unexpected(opened.error());
  const timeval limit{.tv_sec = kNetlinkMax / 1s, .tv_usec = 0};
  ::setsockopt(nl_socket_get_fd(socket.get()), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  for (const std::uint8_t family : {AF_INET, AF_INET6}) {
    if (const int code = collect(socket.get(), family); code < 0) return failed(code);
  }
  std::size_t count = 0;
  for (const Found& connection : search.found) {
    const int code = destroy(socket.get(), connection);
    if (code == -NLE_OPNOTSUPP)
      return fail(Fault::kMisuse, "this kernel can not reset connections: it has no CONFIG_INET_DIAG_DESTROY");
    if (code < 0 && code != -NLE_OBJ_NOTFOUND) return failed(code);
    if (code >= 0) ++count;
  }
  return count;
}

}  // namespace r2ccl::lab
