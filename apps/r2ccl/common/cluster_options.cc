#include "apps/r2ccl/common/cluster_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "base/units.h"

namespace r2ccl::apps {
namespace {

constexpr std::uint64_t kServersMax = 4096;
constexpr std::uint64_t kGpusMax = 64;
constexpr std::uint64_t kNicsMax = 64;
constexpr std::uint64_t kRanksMax = 16384;
constexpr std::uint64_t kRateMax = 1'000'000'000'000'000;
constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 50;

constexpr std::array kCollectives{Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                  Collective::kBroadcast, Collective::kReduce,        Collective::kGather,
                                  Collective::kScatter,   Collective::kAllToAll};

// "2:1" and what follows the second colon, if any.
Result<std::pair<NicPlace, std::string_view>> split_nic(std::string_view text, std::string_view example) {
  const auto bad = [&] {
    return fail(Fault::kMisuse, fmt::format("'{}' does not name a NIC; write for example {}", text, example));
  };
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return bad();
  const std::size_t second = text.find(':', colon + 1);
  const Result<std::uint64_t> server = parse_integer(text.substr(0, colon));
  const Result<std::uint64_t> nic = parse_integer(text.substr(colon + 1, second - colon - 1));
  if (!server || !nic || *server > UINT32_MAX || *nic > UINT32_MAX) return bad();
  const NicPlace name{static_cast<std::uint32_t>(*server), static_cast<std::uint32_t>(*nic)};
  return std::pair{name, second == std::string_view::npos ? std::string_view{} : text.substr(second + 1)};
}

Result<double> parse_fraction(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return fail(Fault::kMisuse, fmt::format("'{}' is not a fraction; write for example 0.5", text));
  }
  return value;
}

Status damage(Cluster& cluster, const ClusterOptions& options) {
  for (const std::string& text : options.lost) {
    const Result<NicPlace> name = parse_nic(text);
    if (!name) return std::unexpected(name.error());
    if (Status ok = lose_nic(cluster, name->server, name->nic); !ok) return ok;
  }
  for (const std::string& text : options.slow) {
    const auto parts = split_nic(text, "2:1:0.5 (server 2, NIC 1, half its rate left)");
    if (!parts) return std::unexpected(parts.error());
    const Result<double> fraction = parse_fraction(parts->second);
    if (!fraction) return std::unexpected(fraction.error());
    if (Status ok = slow_nic(cluster, parts->first.server, parts->first.nic, *fraction); !ok) return ok;
  }
  return {};
}

}  // namespace

void add_cluster_options(Command& command, ClusterOptions& options) {
  command.text("collective", options.collective, "all_reduce (default), all_gather, broadcast, …");
  command.integer({"--servers", 1, kServersMax, "servers; default 4"}, options.servers);
  command.integer({"--gpus", 1, kGpusMax, "ranks per server; default 1"}, options.gpus);
  command.integer({"--nics", 1, kNicsMax, "NICs per server; default 8"}, options.nics);
  command.rate({"--rate", 1, kRateMax, "of a NIC; default 400gbit"}, options.rate);
  command.bytes({"--bytes", 0, kBytesMax, "of the data, as nccl-tests counts it; default 1G"}, options.bytes);
  command.integer({"--root", 0, kRanksMax, "of broadcast, reduce, gather, scatter"}, options.root);
  command.texts("--lost", options.lost, "a NIC that is gone; repeatable").value_name("SERVER:NIC");
  command.texts("--slow", options.slow, "a NIC with this fraction of its rate; repeatable")
      .value_name("SERVER:NIC:FRACTION");
  command.text("--fabric", options.fabric, "routed (default) or rails: NIC k reaches only NICs k").value_name("F");
  command.text("--algo", options.algorithm, "a name, auto (default) or all").value_name("A");
  command.integer({"--segments", 1, 4096, "pipeline depth; by the cost model unless given"}, options.segments);
  command.text("--alpha", options.alpha, "latency of a message; default 5us").value_name("TIME");
  command.integer({"--port-cost-ns", 0, 1'000'000, "time a message blocks its NIC besides its bytes; default 3"},
                  options.port_cost_ns);
  command.bytes({"--min-message", 1, kBytesMax, "smallest message the planner cuts; default 32K"}, options.min_message);
  command.rate({"--intra-rate", 1, kRateMax, "of a GPU inside its server; default 3600gbit"}, options.intra_rate);
  command.flag("--json", options.json, "print one JSON object");
}

Result<Collective> collective_of(const ClusterOptions& options) {
  std::vector<std::string_view> names;
  for (const Collective collective : kCollectives) {
    if (options.collective == to_text(collective)) return collective;
    names.push_back(to_text(collective));
  }
  return fail(Fault::kMisuse,
              fmt::format("there is no collective '{}'; there are {}", options.collective, fmt::join(names, ", ")));
}

Result<Request> request_of(const ClusterOptions& options) {
  const Result<Collective> collective = collective_of(options);
  if (!collective) return std::unexpected(collective.error());
  return Request{*collective, options.bytes, static_cast<std::uint32_t>(options.root)};
}

Result<Cluster> healthy_cluster_of(const ClusterOptions& options) {
  if (options.servers * options.gpus > kRanksMax) {
    return fail(Fault::kMisuse, fmt::format("{} ranks are more than the {} that can be planned",
                                            options.servers * options.gpus, kRanksMax));
  }
  const Result<Duration> alpha = parse_duration(options.alpha);
  if (!alpha) return std::unexpected(alpha.error());
  Cluster cluster =
      Cluster::uniform(static_cast<std::uint32_t>(options.servers), static_cast<std::uint32_t>(options.gpus),
                       static_cast<std::uint32_t>(options.nics), static_cast<double>(options.rate));
  cluster.alpha_s = to_seconds(*alpha);
  cluster.port_cost_s = static_cast<double>(options.port_cost_ns) * 1e-9;
  cluster.min_message = options.min_message;
  cluster.intra_rate = static_cast<double>(options.intra_rate);
  if (options.fabric == "rails") {
    cluster.fabric = Fabric::kRails;
  } else if (options.fabric != "routed") {
    return fail(Fault::kMisuse, fmt::format("there is no fabric '{}'; there are routed and rails", options.fabric));
  }
  return cluster;
}

Result<Cluster> cluster_of(const ClusterOptions& options) {
  Result<Cluster> cluster = healthy_cluster_of(options);
  if (!cluster) return cluster;
  if (Status ok = damage(*cluster, options); !ok) return std::unexpected(ok.error());
  return cluster;
}

Tuning tuning_of(const ClusterOptions& options) {
  Tuning tuning;
  if (options.segments != 0) tuning.segments = static_cast<std::uint32_t>(options.segments);
  return tuning;
}

Result<std::vector<std::string>> algorithms_of(const ClusterOptions& options) {
  const Result<Collective> collective = collective_of(options);
  if (!collective) return std::unexpected(collective.error());
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == *collective) names.emplace_back(algorithm.name);
  }
  if (options.algorithm == "all") return names;
  if (options.algorithm == "auto" || std::find(names.begin(), names.end(), options.algorithm) != names.end()) {
    return std::vector{options.algorithm};
  }
  return fail(Fault::kMisuse, fmt::format("there is no algorithm '{}' for {}; there are {}, auto and all",
                                          options.algorithm, options.collective, fmt::join(names, ", ")));
}

Result<NicPlace> parse_nic(std::string_view text) {
  const auto parts = split_nic(text, "2:1 (server 2, NIC 1)");
  if (!parts) return std::unexpected(parts.error());
  if (!parts->second.empty())
    return fail(Fault::kMisuse, fmt::format("'{}' does not name a NIC; write for example 2:1", text));
  return parts->first;
}

std::string describe(const Request& request, const Cluster& cluster) {
  return fmt::format(
      "{} of {} on {} servers x {} GPUs x {} NICs at {}, {}; alpha {:g} us, port cost {:g} ns, messages from {}",
      to_text(request.collective), bytes_text(request.bytes), cluster.servers, cluster.gpus, cluster.nics,
      rate_text(static_cast<std::uint64_t>(cluster.nic_rate)),
      cluster.fabric == Fabric::kRails ? "isolated rails" : "routed", cluster.alpha_s * 1e6, cluster.port_cost_s * 1e9,
      bytes_text(cluster.min_message));
}

}  // namespace r2ccl::apps
