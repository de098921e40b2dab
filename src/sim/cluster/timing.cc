#include "sim/cluster/timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "sim/cluster/fair.h"
#include "sim/cluster/flat_lanes.h"
#include "sim/cluster/multi_port.h"
#include "sim/cluster/one_port.h"
#include "sim/cluster/replay.h"

namespace r2ccl {
namespace {

Status fits(const Schedule& schedule, const Cluster& cluster) {
  const Frame& frame = schedule.frame;
  if (frame.ranks != cluster.ranks() || schedule.lanes.size() != frame.ranks ||
      frame.ranks_per_server != cluster.gpus) {
    return fail(Fault::kMisuse,
                fmt::format("the schedule is for {} ranks, {} per server; the cluster has {}, {} per server",
                            frame.ranks, frame.ranks_per_server, cluster.ranks(), cluster.gpus));
  }
  if (!frame.shares.empty() && (frame.shares.servers != cluster.servers || frame.shares.rails != cluster.nics)) {
    return fail(Fault::kMisuse,
                fmt::format("the schedule has shares for {} servers with {} rails; the cluster has {} with {}",
                            frame.shares.servers, frame.shares.rails, cluster.servers, cluster.nics));
  }
  if (!frame.nic_of_rail.empty() && frame.nic_of_rail.size() != cluster.rate.size()) {
    return fail(Fault::kMisuse, fmt::format("the schedule maps {} rails; the cluster has {} NICs",
                                            frame.nic_of_rail.size(), cluster.rate.size()));
  }
  return {};
}

Status fits(const TimingOptions& options, const Cluster& cluster) {
  if (options.model != PortModel::kMultiPort && !options.faults.empty()) {
    return fail(Fault::kMisuse,
                fmt::format("faults inside a collective need the multi-port model, not {}", to_text(options.model)));
  }
  for (const NicFault& fault : options.faults) {
    if (fault.server >= cluster.servers || fault.nic >= cluster.nics) {
      return fail(Fault::kMisuse,
                  fmt::format("a fault names NIC {} of server {}, which does not exist", fault.nic, fault.server));
    }
    if (!(fault.rate >= 0) || !(fault.at_s >= 0)) {
      return fail(Fault::kMisuse,
                  fmt::format("a fault at {} s with rate {}; neither may be negative", fault.at_s, fault.rate));
    }
  }
  return {};
}

// In bytes; of messages between servers.
std::uint64_t smallest_message(const FlatLanes& flat, const Cluster& cluster) {
  double least = kNever;
  for (const FlatStep& step : flat.steps) {
    if (step.out == kNoIndex) continue;
    const FlatConnection& c = flat.connections[step.out];
    if (c.from / cluster.gpus != c.to / cluster.gpus) least = std::min(least, flat.bytes_of_span[step.span]);
  }
  return least == kNever ? 0 : static_cast<std::uint64_t>(least);
}

template <class Network>
Result<Timing> finish(const Schedule& schedule, const FlatLanes& flat, const Cluster& cluster, Network& network,
                      Timing& timing) {
  const Result<double> end_s = Replay<Network>(schedule, flat, cluster, network).run();
  if constexpr (requires { network.error(); }) {
    if (!network.error().empty()) return fail(Fault::kMisuse, network.error());
  }
  if (!end_s) return std::unexpected(end_s.error());
  timing.time_s = *end_s;
  timing.smallest_message = smallest_message(flat, cluster);
  return std::move(timing);
}

}  // namespace

std::string_view to_text(PortModel model) {
  switch (model) {
    case PortModel::kMultiPort:
      return "multi-port";
    case PortModel::kFair:
      return "fair";
    case PortModel::kOnePort:
      return "one-port";
  }
  R2CCL_ASSERT(false, "a port model without a name");
}

Result<Timing> time_schedule(const Schedule& schedule, const Cluster& cluster, std::uint64_t bytes,
                             const TimingOptions& options) {
  if (Status ok = validate(cluster); !ok) return std::unexpected(ok.error());
  if (Status ok = fits(schedule, cluster); !ok) return std::unexpected(ok.error());
  if (Status ok = fits(options, cluster); !ok) return std::unexpected(ok.error());
  const FlatLanes flat = flatten(schedule, bytes);
  Timing timing;
  timing.nic_bytes_out.assign(cluster.rate.size(), 0);
  timing.nic_bytes_in.assign(cluster.rate.size(), 0);
  switch (options.model) {
    case PortModel::kMultiPort: {
      MultiPort network(cluster, schedule.frame, flat, options, timing);
      return finish(schedule, flat, cluster, network, timing);
    }
    case PortModel::kFair: {
      Fair network(cluster, schedule.frame, flat.connections.size(), timing);
      return finish(schedule, flat, cluster, network, timing);
    }
    case PortModel::kOnePort: {
      OnePort network(cluster, options, timing);
      return finish(schedule, flat, cluster, network, timing);
    }
  }
  R2CCL_ASSERT(false, "a port model without a network");
}

}  // namespace r2ccl
