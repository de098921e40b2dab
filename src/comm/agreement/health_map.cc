#include "comm/agreement/health_map.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace r2ccl {
namespace {

// What all virtual NICs with one number that one machine plays can move together: the rate that one of them tells
// (10 Gbit/s), and about what a kernel moves.
constexpr double kMachineRate = 1.25e9;

// Ranks per server when every server has as many, one server after another; 0 otherwise.
std::uint32_t even_gpus(const std::vector<ProcessInfo>& members) {
  std::size_t gpus = 1;
  while (gpus < members.size() && members[gpus].server == members[0].server) ++gpus;
  if (members.size() % gpus != 0) return 0;
  std::map<ServerId, std::size_t> seen;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const auto [server, added] = seen.emplace(members[rank].server, rank / gpus);
    if (server->second != rank / gpus) return 0;
  }
  return static_cast<std::uint32_t>(gpus);
}

// The most servers under one host's name.
std::uint32_t most_servers_of_a_host(const std::vector<ProcessInfo>& members) {
  std::map<std::string, std::set<ServerId>> servers;
  for (const ProcessInfo& member : members) servers[member.host].insert(member.server);
  std::size_t most = 1;
  for (const auto& [host, there] : servers) most = std::max(most, there.size());
  return static_cast<std::uint32_t>(most);
}

}  // namespace

Placement place(const std::vector<ProcessInfo>& members, double unknown_rate) {
  Placement placement;
  const std::uint32_t even = even_gpus(members);
  placement.gpus = even == 0 ? 1 : even;
  placement.servers = static_cast<std::uint32_t>(members.size()) / placement.gpus;
  for (const ProcessInfo& member : members) {
    for (const ProcessInfo::Port& port : member.ports)
      placement.nics = std::max(placement.nics, std::uint32_t{port.nic.value} + 1);
    placement.in_memory = placement.in_memory && std::ranges::all_of(member.ports, [](const ProcessInfo::Port& port) {
                            return port.listen.is_loopback();
                          });
  }
  placement.played = most_servers_of_a_host(members);
  placement.nic_rate.assign(std::size_t{placement.servers} * placement.nics, 0);
  for (std::uint32_t server = 0; server < placement.servers; ++server) {
    const ProcessInfo& first = members[std::size_t{server} * placement.gpus];
    const auto beside = [&](const ProcessInfo& other) { return other.server == first.server; };
    placement.sharing.push_back(even == 0 ? static_cast<std::uint32_t>(std::ranges::count_if(members, beside)) : 1);
    for (const ProcessInfo::Port& port : first.ports) {
      double speed = port.speed_bytes_s > 0 ? static_cast<double>(port.speed_bytes_s) : unknown_rate;
      if (!placement.in_memory && placement.played > 1) speed = std::min(speed, kMachineRate / placement.played);
      placement.nic_rate[std::size_t{server} * placement.nics + port.nic.value] = speed / placement.sharing.back();
    }
  }
  return placement;
}

HealthMap all_healthy(const Placement& placement) {
  return {.version = 0, .nic = std::vector<Permille>(placement.nic_rate.size(), kWhole)};
}

Cluster cluster_of(const Placement& placement, const HealthMap& map, Fabric fabric, const LinkCosts& costs) {
  const double fastest = *std::ranges::max_element(placement.nic_rate);
  Cluster cluster =
      Cluster::uniform(placement.servers, placement.gpus, placement.nics, fastest > 0 ? fastest : costs.unknown_rate);
  cluster.fabric = fabric;
  cluster.alpha_s = costs.alpha_s;
  cluster.intra_alpha_s = costs.alpha_s;
  cluster.port_cost_s = costs.port_cost_s * placement.played;
  cluster.rank_cost_s = cluster.port_cost_s;
  cluster.played = placement.played;
  cluster.wired = !placement.in_memory;
  cluster.crowd = costs.crowd;
  cluster.min_message = costs.min_message;
  cluster.intra_rate = costs.intra_rate;
  cluster.reduce_rate = costs.reduce_rate;
  for (std::uint32_t server = 0; server < placement.servers; ++server) {
    const std::size_t first = std::size_t{server} * placement.nics;
    double left = 0;
    for (std::size_t i = first; i < first + placement.nics; ++i) left += placement.nic_rate[i] * map.nic[i];
    for (std::size_t i = first; i < first + placement.nics; ++i) {
      cluster.rate[i] = placement.nic_rate[i] * (left > 0 ? map.nic[i] / double{kWhole} : 1);
    }
  }
  return cluster;
}

}  // namespace r2ccl
