#include "lab/built_lab.h"

#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "lab/net_namespace.h"
#include "lab/reset_connections.h"

namespace r2ccl::lab {
namespace {

struct Sysctl {
  const char* path;
  const char* value;
};
// Without the first three a NIC would answer for the others of its server, and packets of one rail would come in by
// another.
constexpr Sysctl kServerSettings[] = {
    {"/proc/sys/net/ipv4/conf/all/arp_ignore", "1"},
    {"/proc/sys/net/ipv4/conf/all/arp_announce", "2"},
    {"/proc/sys/net/ipv4/conf/all/rp_filter", "0"},
    {"/proc/sys/net/ipv4/conf/default/rp_filter", "0"},
};
// Keeps neighbour discovery of addresses that nobody uses off the wire.
constexpr Sysctl kWithoutV6[] = {{"/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"}};
// Addresses can be used at once, without asking whether somebody has them, and outlive a NIC that is set down as IPv4's
// do.
constexpr Sysctl kWithV6[] = {
    {"/proc/sys/net/ipv6/conf/default/disable_ipv6", "0"},
    {"/proc/sys/net/ipv6/conf/default/accept_dad", "0"},
    {"/proc/sys/net/ipv6/conf/default/accept_ra", "0"},
    {"/proc/sys/net/ipv6/conf/all/keep_addr_on_down", "1"},
};

Status configure(const Fd& name_space, const std::string& name, bool ipv6) {
  std::vector<Sysctl> settings(std::begin(kServerSettings), std::end(kServerSettings));
  const std::span<const Sysctl> more = ipv6 ? std::span<const Sysctl>(kWithV6) : std::span<const Sysctl>(kWithoutV6);
  settings.insert(settings.end(), more.begin(), more.end());
  return inside(name_space, [&]() -> Status {
    for (const Sysctl& setting : settings) {
      std::ofstream file(setting.path);
      if (!file && !ipv6 && std::string_view(setting.path).find("ipv6") != std::string_view::npos)
        continue;  // has none
      if (file << setting.value << std::flush) continue;
      return fail(Fault::kBusy, fmt::format("can not write {} to {} in {}", setting.value, setting.path, name));
    }
    return {};
  });
}

Result<LabPlace> open_place(const std::string& name) {
  auto name_space = open_namespace(name);
  if (!name_space) return std::unexpected(name_space.error());
  auto netlink = Netlink::open(*name_space, name);
  if (!netlink) return std::unexpected(netlink.error());
  return LabPlace{std::move(*name_space), name, std::move(*netlink)};
}

Result<LabPlace> make_place(const std::string& name, bool ipv6) {
  if (const Status made = make_namespace(name); !made) return std::unexpected(made.error());
  auto place = open_place(name);
  if (!place) return place;
  if (const Status configured = configure(place->name_space, name, ipv6); !configured)
    return std::unexpected(configured.error());
  if (const Status up = place->netlink.set_up("lo", true); !up) return std::unexpected(up.error());
  return place;
}

// Does them in order until one fails.
Status all_of(std::initializer_list<std::function<Status()>> steps) {
  for (const auto& step : steps) {
    if (Status done = step(); !done) return done;
  }
  return {};
}

Status shape_both(Netlink& server, Netlink& switch_side, const Cable& cable) {
  const Shape shape = shape_of(cable.rate_bytes_s);
  if (Status shaped = server.set_shape(cable.nic, shape); !shaped) return shaped;
  return switch_side.set_shape(cable.port, shape);
}

Status connect(const Cable& cable, LabPlace& server, LabPlace& switch_place) {
  const auto bridge = switch_place.netlink.link(cable.bridge);
  if (!bridge) return std::unexpected(bridge.error());
  const Status connected =
      all_of({[&] { return switch_place.netlink.add_veth(cable.port, cable.nic, server.name_space); },
              [&] { return switch_place.netlink.set_bridge(cable.port, bridge->index); },
              [&] { return server.netlink.add_address(cable.nic, cable.address); },
              [&] { return switch_place.netlink.set_up(cable.port, true); },
              [&] { return server.netlink.set_up(cable.nic, true); },
              [&] { return cable.link_local ? server.netlink.add_address(cable.nic, *cable.link_local) : Status{}; }});
  if (!connected) return connected;
  if (cable.rate_bytes_s != 0) {
    if (Status shaped = shape_both(server.netlink, switch_place.netlink, cable); !shaped) return shaped;
  }
  if (!cable.table) return {};
  if (Status ruled = server.netlink.add_source_rule(cable.address, *cable.table); !ruled) return ruled;
  return server.netlink.set_source_route(cable.nic, cable.address, *cable.table);
}

// Removes its interfaces by name, so that they are gone when this returns: the kernel takes its time with those of a
// namespace that merely ends.
Status empty_out(const Fd& name_space, const std::string& name) {
  Status first = end_processes(name_space);
  auto netlink = Netlink::open(name_space, name);
  if (!netlink) return std::unexpected(netlink.error());
  const auto links = netlink->links();
  if (!links) return std::unexpected(links.error());
  for (const LinkInfo& link : *links) {
    if (link.name == "lo") continue;
    const Status removed = netlink->remove_link(link.index);
    if (first && !removed) first = removed;
  }
  return first;
}

}  // namespace

Status check_free(const LabPlan& plan) {
  for (const std::string& name : namespaces(plan)) {
    if (!namespace_exists(name)) continue;
    return fail(Fault::kMisuse,
                fmt::format("a namespace {} is there, and no lab has made it; give this lab another name", name));
  }
  return {};
}

Status build(const LabPlan& plan) {
  auto switch_place = make_place(switch_namespace(plan), false);
  if (!switch_place) return std::unexpected(switch_place.error());
  for (const std::string& bridge : bridges(plan)) {
    if (Status added = switch_place->netlink.add_bridge(bridge); !added) return added;
    if (Status up = switch_place->netlink.set_up(bridge, true); !up) return up;
  }
  for (std::uint64_t server = 0; server < plan.servers; ++server) {
    auto place = make_place(server_namespace(plan, server), plan.ipv6);
    if (!place) return std::unexpected(place.error());
    for (const Cable& cable : cables(plan, server)) {
      if (Status connected = connect(cable, *place, *switch_place); !connected) return connected;
    }
  }
  return {};
}

Status tear_down(const LabPlan& plan) {
  Status first;
  const auto note = [&first](const Status& done) {
    if (first && !done) first = done;
  };
  for (const std::string& name : namespaces(plan)) {
    if (!namespace_exists(name)) continue;
    // A file that is no namespace is what a run that died early left.
    const auto name_space = open_namespace(name);
    if (name_space && is_namespace(*name_space)) note(empty_out(*name_space, name));
    note(remove_namespace(name));
  }
  return first;
}

Result<BuiltLab> BuiltLab::open(const LabPlan& plan) {
  BuiltLab cluster(plan);
  for (const std::string& name : namespaces(plan)) {
    auto place = open_place(name);
    if (!place) return std::unexpected(place.error());
    cluster.places_.push_back(std::move(*place));
  }
  return cluster;
}

Status BuiltLab::set(ServerId server, NicId nic, const LabNicState& state) {
  const auto now = read(server, nic);
  if (!now) return std::unexpected(now.error());
  Netlink& inner = places_[1 + server.value].netlink;
  Netlink& outer = places_[0].netlink;
  Cable cable = cables(plan_, server.value)[nic.value];
  const bool shaped = std::exchange(cable.rate_bytes_s, state.rate_bytes_s) != 0;
  Status done;
  if (shaped && now->state.rate_bytes_s != state.rate_bytes_s) done = shape_both(inner, outer, cable);
  if (done && now->state.bridged != state.bridged) {
    const auto bridge = outer.link(cable.bridge);
    if (!bridge) return std::unexpected(bridge.error());
    done = outer.set_bridge(cable.port, state.bridged ? bridge->index : 0);
  }
  if (done && now->state.cable != state.cable) done = outer.set_up(cable.port, state.cable);
  if (done && now->state.up != state.up) {
    done = inner.set_up(cable.nic, state.up);
    if (done && state.up && cable.table) done = inner.set_source_route(cable.nic, cable.address, *cable.table);
  }
  return done;
}

Result<std::size_t> BuiltLab::reset(ServerId server, NicId nic) {
  R2CCL_ASSERT(server.value < plan_.servers && nic <= plan_.management(), "a NIC of the lab");
  const LabPlace& place = places_[1 + server.value];
  return reset_connections(place.name_space, place.name, cables(plan_, server.value)[nic.value].address);
}

Result<NicReport> BuiltLab::read(ServerId server, NicId nic) {
  R2CCL_ASSERT(server.value < plan_.servers && nic <= plan_.management(), "a NIC of the lab");
  Netlink& inner = places_[1 + server.value].netlink;
  const Cable cable = cables(plan_, server.value)[nic.value];
  const std::string& name = cable.nic;
  const auto link = inner.link(name);
  if (!link) return std::unexpected(link.error());
  const auto port = places_[0].netlink.link(cable.port);
  if (!port) return std::unexpected(port.error());
  const auto rate = inner.rate_bytes_s(name);
  if (!rate) return std::unexpected(rate.error());
  return NicReport{.state = {.up = link->up, .cable = port->up, .bridged = port->bridge != 0, .rate_bytes_s = *rate},
                   .carrier = link->carrier,
                   .sent_bytes = link->sent_bytes,
                   .received_bytes = link->received_bytes};
}

}  // namespace r2ccl::lab
