#pragma once
// The flags that describe a cluster, its failures and a collective; the same for `r2ccl plan` and `r2ccl sim`.

#include <cstdint>
#include <string>
#include <vector>

#include "apps/r2ccl/common/command.h"
#include "planner/plan.h"

namespace r2ccl::apps {

struct ClusterOptions {
  std::string collective = "all_reduce";
  std::uint64_t servers = 4;
  std::uint64_t gpus = 1;
  std::uint64_t nics = 8;
  std::uint64_t rate = 50'000'000'000;  // bytes per second
  std::uint64_t bytes = std::uint64_t{1} << 30;
  std::uint64_t root = 0;
  std::vector<std::string> lost;  // server:nic
  std::vector<std::string> slow;  // server:nic:fraction
  std::string fabric = "routed";
  std::string algorithm = "auto";
  std::uint64_t segments = 0;  // 0: chosen by the cost model
  std::string alpha = "5us";
  std::uint64_t port_cost_ns = 3;
  std::uint64_t min_message = 32 << 10;
  std::uint64_t intra_rate = 450'000'000'000;
  bool json = false;
};

void add_cluster_options(Command& command, ClusterOptions& options);

// Bad values fail with kMisuse and one sentence.
Result<Collective> collective_of(const ClusterOptions& options);
Result<Request> request_of(const ClusterOptions& options);
// The cluster without the failures of --lost and --slow, and with them.
Result<Cluster> healthy_cluster_of(const ClusterOptions& options);
Result<Cluster> cluster_of(const ClusterOptions& options);
Tuning tuning_of(const ClusterOptions& options);
// Those asked for: one, "auto", or all of the collective. Unknown names fail.
Result<std::vector<std::string>> algorithms_of(const ClusterOptions& options);

struct NicPlace {
  std::uint32_t server = 0;
  std::uint32_t nic = 0;
};
Result<NicPlace> parse_nic(std::string_view text);  // "3:1"

// "4 servers x 8 GPUs x 8 NICs at 400 gbit/s, routed, 1 GiB; alpha 5 us, port cost 3 ns, messages from 32 KiB"
std::string describe(const Request& request, const Cluster& cluster);

}  // namespace r2ccl::apps
