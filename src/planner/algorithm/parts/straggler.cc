#include "planner/algorithm/parts/straggler.h"

#include <fmt/format.h>

namespace r2ccl {

Result<Straggler> find_straggler(const Cluster& cluster, std::string_view algorithm, std::uint32_t least_servers) {
  if (cluster.servers < least_servers) {
    return fail(Fault::kMisuse, fmt::format("{} needs {} or more servers; there {} {}", algorithm, least_servers,
                                            cluster.servers == 1 ? "is" : "are", cluster.servers));
  }
  if (cluster.gpus != 1) {
    return fail(Fault::kMisuse, fmt::format("{} plans for one GPU per server; there are {}", algorithm, cluster.gpus));
  }
  Straggler straggler;
  std::uint32_t degraded = 0;
  for (std::uint32_t server = 0; server < cluster.servers; ++server) {
    const double slowdown = cluster.healthy_server_rate() / cluster.server_rate(server);
    if (slowdown <= 1 + 1e-9) continue;
    straggler = {server, slowdown};
    ++degraded;
  }
  if (degraded > 1) {
    return fail(Fault::kMisuse, fmt::format("{} needs exactly one degraded server; {} are", algorithm, degraded));
  }
  return straggler;
}

}  // namespace r2ccl
