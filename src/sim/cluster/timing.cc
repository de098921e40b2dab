#include "sim/cluster/timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/assert.h"
#include "sim/cluster/long_pipeline.h"
#include "sim/cluster/ports/fair.h"
#include "sim/cluster/ports/multi_port.h"
#include "sim/cluster/ports/one_port.h"
#include "sim/cluster/replay.h"

namespace r2ccl::sim {
namespace {

Status fits(const Schedule& schedule, const Cluster& cluster) {
  const PlanHeader& header = schedule.header;
  if (header.ranks != cluster.ranks() || schedule.lanes.size() != header.ranks ||
      header.ranks_per_server != cluster.gpus) {
    return fail(Fault::kMisuse,
                fmt::format("the schedule is for {} ranks, {} per server; the cluster has {}, {} per server",
                            header.ranks, header.ranks_per_server, cluster.ranks(), cluster.gpus));
  }
  if (!header.shares.empty() && (header.shares.servers != cluster.servers || header.shares.rails != cluster.nics)) {
    return fail(Fault::kMisuse,
                fmt::format("the schedule has shares for {} servers with {} rails; the cluster has {} with {}",
                            header.shares.servers, header.shares.rails, cluster.servers, cluster.nics));
  }
  if (!header.nic_of_rail.empty() && header.nic_of_rail.size() != cluster.rate.size()) {
    return fail(Fault::kMisuse, fmt::format("the schedule maps {} rails; the cluster has {} NICs",
                                            header.nic_of_rail.size(), cluster.rate.size()));
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

// One run of a schedule on a cluster.
class Timer final {
 public:
  // `flat`: the schedule's lanes; as they were when time() ends.
  Timer(const Schedule& schedule, const Cluster& cluster, const TimingOptions& options, FlatLanes& flat)
      : schedule_(schedule), cluster_(cluster), options_(options), flat_(flat), traffic_(traffic_of(flat, cluster)) {}

  Result<Timing> time() {
    const bool whole = options_.whole || !options_.faults.empty() || options_.occupancy != nullptr ||
                       options_.model == PortModel::kFair;
    const std::optional<LongPipeline> pipeline = whole ? std::nullopt : pipeline_of(flat_, schedule_.header);
    if (pipeline) {
      RoundProgress progress(flat_, cluster_, *pipeline);
      const std::int64_t left_out = std::int64_t{pipeline->rounds} - pipeline->shorter;
      stretch(flat_, pipeline->start, -left_out);
      Result<Timing> timing = run(&progress);
      stretch(flat_, pipeline->start, left_out);
      if (!timing) return timing;
      if (const std::optional<double> whole_s = progress.whole_s(busiest_)) {
        timing->time_s = *whole_s;
        count(*timing);
        return timing;
      }
    }
    Result<Timing> timing = run(nullptr);
    if (timing) count(*timing);
    return timing;
  }

 private:
  Result<Timing> run(RoundProgress* progress) {
    Timing timing;
    timing.nic_bytes_out.assign(cluster_.rate.size(), 0);
    timing.nic_bytes_in.assign(cluster_.rate.size(), 0);
    switch (options_.model) {
      case PortModel::kMultiPort: {
        MultiPort network(cluster_, schedule_.header, traffic_, options_, timing);
        return replay(network, timing, progress);
      }
      case PortModel::kFair: {
        Fair network(cluster_, schedule_.header, flat_.connections.size(), timing);
        return replay(network, timing, progress);
      }
      case PortModel::kOnePort: {
        OnePort network(cluster_, options_, timing);
        return replay(network, timing, progress);
      }
    }
    R2CCL_ASSERT(false, "a port model without a network");
  }

  template <class Network>
  Result<Timing> replay(Network& network, Timing& timing, RoundProgress* progress) {
    Replay<Network> replay(schedule_, flat_, cluster_, network, progress, options_.occupancy != nullptr);
    const Result<double> end_s = replay.run();
    if constexpr (requires { network.error(); }) {
      if (!network.error().empty()) return fail(Fault::kMisuse, network.error());
    }
    if (!end_s) return std::unexpected(end_s.error());
    timing.time_s = *end_s;
    if constexpr (requires { network.busiest_s(); }) {
      busiest_ = {.nics_s = network.busiest_s(), .fabric_s = network.busiest_fabric_s()};
    }
    return std::move(timing);
  }

  // What all rounds send, divided over the NICs as in the run.
  void count(Timing& timing) const {
    timing.messages = traffic_.messages;
    timing.intra_messages = traffic_.intra_messages;
    timing.smallest_message = static_cast<std::uint64_t>(traffic_.smallest_message);
    for (std::uint32_t server = 0; server < cluster_.servers; ++server) {
      scale(timing.nic_bytes_out.data() + std::size_t{server} * cluster_.nics, server, traffic_.out);
      scale(timing.nic_bytes_in.data() + std::size_t{server} * cluster_.nics, server, traffic_.in);
    }
  }

  void scale(double* of_nic, std::uint32_t server, const std::vector<double>& of_rank) const {
    const double run = std::accumulate(of_nic, of_nic + cluster_.nics, 0.0);
    const double* const rank = of_rank.data() + std::size_t{server} * cluster_.gpus;
    const double whole = std::accumulate(rank, rank + cluster_.gpus, 0.0);
    for (std::uint32_t nic = 0; nic < cluster_.nics && run > 0; ++nic) of_nic[nic] *= whole / run;
  }

  const Schedule& schedule_;
  const Cluster& cluster_;
  const TimingOptions& options_;
  FlatLanes& flat_;
  LaneTraffic traffic_;
  Busiest busiest_;  // in the last run
};

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
                             const TimingOptions& options, FlatLanes* kept) {
  if (Status ok = validate(cluster); !ok) return std::unexpected(ok.error());
  if (Status ok = fits(schedule, cluster); !ok) return std::unexpected(ok.error());
  if (Status ok = fits(options, cluster); !ok) return std::unexpected(ok.error());
  FlatLanes own;
  FlatLanes& flat = kept != nullptr ? *kept : own;
  if (flat.lanes.empty() || !resize(flat, schedule.header.layout, bytes)) flat = flatten(schedule, bytes);
  return Timer(schedule, cluster, options, flat).time();
}

}  // namespace r2ccl::sim
