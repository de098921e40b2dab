#include "lab/netlink.h"

#include <fmt/format.h>
#include <linux/fib_rules.h>
#include <linux/if.h>
#include <linux/pkt_sched.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/bridge.h>
#include <netlink/route/link/veth.h>
#include <netlink/route/qdisc.h>
#include <netlink/route/qdisc/tbf.h>
#include <netlink/route/route.h>
#include <netlink/route/rule.h>
#include <netlink/route/tc.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <utility>

#include "lab/net_namespace.h"

namespace r2ccl::lab {
namespace {

template <auto Free>
struct With {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using LinkRow = std::unique_ptr<rtnl_link, With<rtnl_link_put>>;
using Addr = std::unique_ptr<nl_addr, With<nl_addr_put>>;
using LocalAddress = std::unique_ptr<rtnl_addr, With<rtnl_addr_put>>;
using Qdisc = std::unique_ptr<rtnl_qdisc, With<rtnl_qdisc_put>>;
using Rule = std::unique_ptr<rtnl_rule, With<rtnl_rule_put>>;
using Route = std::unique_ptr<rtnl_route, With<rtnl_route_put>>;
using Cache = std::unique_ptr<nl_cache, With<nl_cache_free>>;

constexpr int kRulePriority = 1000;  // before the main table's

int family_of(const Address& address) {
  return address.is_v4() ? AF_INET : AF_INET6;
}

// How much of an address names its network, all networks of a lab, and itself.
struct Prefixes {
  int network, lab, whole;
};
Prefixes prefixes_of(const Address& address) {
  return address.is_v4() ? Prefixes{16, 8, 32} : Prefixes{64, 8, 128};
}

Addr to_nl(const Address& address, int prefix) {
  const bool v4 = address.is_v4();
  Addr out(nl_addr_build(family_of(address), address.ip.data() + (v4 ? 12 : 0), v4 ? 4 : 16));
  nl_addr_set_prefixlen(out.get(), prefix);
  return out;
}

// The network that contains all addresses of a lab.
Address lab_network(const Address& address) {
  Address out = address.is_v4() ? Address::v4(address.ip[12], 0, 0, 0) : Address{};
  if (!address.is_v4()) out.ip[0] = address.ip[0];
  return out;
}

LinkInfo info_of(rtnl_link* link) {
  const unsigned flags = rtnl_link_get_flags(link);
  return {.index = rtnl_link_get_ifindex(link),
          .name = rtnl_link_get_name(link),
          .up = (flags & IFF_UP) != 0,
          .carrier = (flags & IFF_LOWER_UP) != 0,
          .bridge = rtnl_link_get_master(link),
          .sent_bytes = rtnl_link_get_stat(link, RTNL_LINK_TX_BYTES),
          .received_bytes = rtnl_link_get_stat(link, RTNL_LINK_RX_BYTES)};
}

}  // namespace

void Netlink::Close::operator()(nl_sock* socket) const {
  nl_socket_free(socket);
}

Netlink::Netlink(std::unique_ptr<nl_sock, Close> socket, std::string where)
    : socket_(std::move(socket)), where_(std::move(where)) {}

Result<Netlink> Netlink::open(const Fd& name_space, const std::string& where) {
  Netlink made({nl_socket_alloc(), Close{}}, where);
  // A socket speaks to the namespace it was made in, wherever its owner goes.
  const Status opened = inside(name_space, [&] {
    if (!made.socket_) return made.answer(-NLE_NOMEM, "open", "netlink");
    return made.answer(nl_connect(made.socket_.get(), NETLINK_ROUTE), "open", "netlink");
  });
  if (!opened) return std::unexpected(opened.error());
  const timeval limit{.tv_sec = kNetlinkMax / 1s, .tv_usec = 0};
  ::setsockopt(nl_socket_get_fd(made.socket_.get()), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return made;
}

Status Netlink::answer(int code, std::string_view what, std::string_view of) const {
  if (code >= 0) return {};
  return fail(Fault::kBusy, fmt::format("can not {} {} in {}: {}", what, of, where_, nl_geterror(code)));
}

Result<LinkInfo> Netlink::link(const std::string& name) {
  rtnl_link* found = nullptr;
  const Status asked = answer(rtnl_link_get_kernel(socket_.get(), 0, name.c_str(), &found), "find", name);
  if (!asked) return std::unexpected(asked.error());
  return info_of(LinkRow(found).get());
}

Result<int> Netlink::index_of(const std::string& name) {
  const auto found = link(name);
  if (!found) return std::unexpected(found.error());
  return found->index;
}

Result<std::vector<LinkInfo>> Netlink::links() {
  nl_cache* raw = nullptr;
  const Status asked = answer(rtnl_link_alloc_cache(socket_.get(), AF_UNSPEC, &raw), "list", "links");
  if (!asked) return std::unexpected(asked.error());
  const Cache cache(raw);
  std::vector<LinkInfo> out;
  for (nl_object* one = nl_cache_get_first(raw); one != nullptr; one = nl_cache_get_next(one))
    out.push_back(info_of(reinterpret_cast<rtnl_link*>(one)));
  return out;
}

Status Netlink::add_bridge(const std::string& name) {
  const LinkRow bridge(rtnl_link_bridge_alloc());
  rtnl_link_set_name(bridge.get(), name.c_str());
  return answer(rtnl_link_add(socket_.get(), bridge.get(), NLM_F_CREATE | NLM_F_EXCL), "add bridge", name);
}

Status Netlink::add_veth(const std::string& name, const std::string& other_name, const Fd& other_namespace) {
  const LinkRow here(rtnl_link_veth_alloc());
  const LinkRow there(rtnl_link_veth_get_peer(here.get()));
  rtnl_link_set_name(here.get(), name.c_str());
  rtnl_link_set_name(there.get(), other_name.c_str());
  rtnl_link_set_ns_fd(there.get(), other_namespace.get());
  return answer(rtnl_link_add(socket_.get(), here.get(), NLM_F_CREATE | NLM_F_EXCL), "add veth", name);
}

Status Netlink::remove_link(int index) {
  const LinkRow link(rtnl_link_alloc());
  rtnl_link_set_ifindex(link.get(), index);
  const int code = rtnl_link_delete(socket_.get(), link.get());
  if (code == -NLE_NODEV || code == -NLE_OBJ_NOTFOUND) return {};
  return answer(code, "remove", fmt::format("interface {}", index));
}

Status Netlink::set_up(const std::string& name, bool up) {
  const auto index = index_of(name);
  if (!index) return std::unexpected(index.error());
  const LinkRow now(rtnl_link_alloc());
  const LinkRow wanted(rtnl_link_alloc());
  rtnl_link_set_ifindex(now.get(), *index);
  if (up) {
    rtnl_link_set_flags(wanted.get(), IFF_UP);
  } else {
    rtnl_link_unset_flags(wanted.get(), IFF_UP);
  }
  return answer(rtnl_link_change(socket_.get(), now.get(), wanted.get(), 0), up ? "set up" : "set down", name);
}

Status Netlink::set_bridge(const std::string& name, int bridge) {
  const auto index = index_of(name);
  if (!index) return std::unexpected(index.error());
  if (bridge == 0) return answer(rtnl_link_release_ifindex(socket_.get(), *index), "take out of its bridge", name);
  return answer(rtnl_link_enslave_ifindex(socket_.get(), bridge, *index), "put into its bridge", name);
}

Status Netlink::add_address(const std::string& name, const Address& address) {
  const auto index = index_of(name);
  if (!index) return std::unexpected(index.error());
  const LocalAddress local(rtnl_addr_alloc());
  rtnl_addr_set_ifindex(local.get(), *index);
  rtnl_addr_set_local(local.get(), to_nl(address, prefixes_of(address).network).get());
  return answer(rtnl_addr_add(socket_.get(), local.get(), 0), fmt::format("give {} to", to_text(address)), name);
}

Status Netlink::set_shape(const std::string& name, const Shape& shape) {
  const auto index = index_of(name);
  if (!index) return std::unexpected(index.error());
  const Qdisc qdisc(rtnl_qdisc_alloc());
  rtnl_tc* const tc = TC_CAST(qdisc.get());
  rtnl_tc_set_ifindex(tc, *index);
  rtnl_tc_set_parent(tc, TC_H_ROOT);
  rtnl_tc_set_handle(tc, TC_HANDLE(1, 0));
  rtnl_tc_set_kind(tc, "tbf");
  rtnl_qdisc_tbf_set_rate(qdisc.get(), static_cast<int>(shape.rate_bytes_s), static_cast<int>(shape.burst_bytes), 0);
  rtnl_qdisc_tbf_set_limit(qdisc.get(), static_cast<int>(shape.limit_bytes));
  return answer(rtnl_qdisc_add(socket_.get(), qdisc.get(), NLM_F_CREATE | NLM_F_REPLACE), "shape", name);
}

Result<std::uint64_t> Netlink::rate_bytes_s(const std::string& name) {
  const auto index = index_of(name);
  if (!index) return std::unexpected(index.error());
  nl_cache* raw = nullptr;
  const Status asked = answer(rtnl_qdisc_alloc_cache(socket_.get(), &raw), "list", "queues");
  if (!asked) return std::unexpected(asked.error());
  const Cache cache(raw);
  const Qdisc qdisc(rtnl_qdisc_get_by_parent(raw, *index, TC_H_ROOT));
  if (!qdisc || std::string_view(rtnl_tc_get_kind(TC_CAST(qdisc.get()))) != "tbf") return 0;
  return static_cast<std::uint64_t>(rtnl_qdisc_tbf_get_rate(qdisc.get()));
}

Status Netlink::add_source_rule(const Address& address, std::uint64_t table) {
  const Rule rule(rtnl_rule_alloc());
  rtnl_rule_set_family(rule.get(), family_of(address));
  rtnl_rule_set_src(rule.get(), to_nl(address, prefixes_of(address).whole).get());
  rtnl_rule_set_table(rule.get(), static_cast<std::uint32_t>(table));
  rtnl_rule_set_action(rule.get(), FR_ACT_TO_TBL);
  rtnl_rule_set_prio(rule.get(), kRulePriority);
  return answer(rtnl_rule_add(socket_.get(), rule.get(), NLM_F_CREATE | NLM_F_EXCL), "add a rule for",
                to_text(address));
}

Status Netlink::set_source_route(const std::string& name, const Address& address, std::uint64_t table) {
  const auto index = index_of(name);
  if (!index) return std::unexpected(index.error());
  const Route route(rtnl_route_alloc());
  rtnl_route_set_family(route.get(), family_of(address));
  rtnl_route_set_dst(route.get(), to_nl(lab_network(address), prefixes_of(address).lab).get());
  rtnl_route_set_table(route.get(), static_cast<std::uint32_t>(table));
  rtnl_route_set_scope(route.get(), RT_SCOPE_LINK);
  rtnl_nexthop* const hop = rtnl_route_nh_alloc();  // the route's from here on
  rtnl_route_nh_set_ifindex(hop, *index);
  rtnl_route_add_nexthop(route.get(), hop);
  return answer(rtnl_route_add(socket_.get(), route.get(), NLM_F_CREATE | NLM_F_REPLACE), "route by", name);
}

}  // namespace r2ccl::lab
