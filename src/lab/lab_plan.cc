#include "lab/lab_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/units.h"

namespace r2ccl::lab {
namespace {

constexpr std::uint8_t kFirstNet = 10;  // rail k is 10.(kFirstNet + k).0.0/16
constexpr std::uint8_t kManagementNet = 250;
constexpr std::uint64_t kFirstTable = 100;

// With less the kernel splits every 64 KiB segment into packets, and the processor becomes the bottleneck.
constexpr std::uint64_t kBurstMin = 160 * 1024;
constexpr std::uint64_t kLimitMin = 512 * 1024;

Address address(const LabPlan& plan, std::uint8_t net, std::uint64_t server) {
  const auto host = static_cast<std::uint8_t>(1 + server);
  if (!plan.ipv6) return Address::v4(10, net, 0, host);
  Address out;
  out.ip[0] = 0xfd;
  out.ip[7] = net;
  out.ip[15] = host;
  return out;
}

// On a routed fabric all NICs are neighbours, so the address tells them apart.
std::optional<Address> link_local(const LabPlan& plan, std::uint8_t net, std::uint64_t server) {
  if (!plan.ipv6) return std::nullopt;
  Address out;
  out.ip[0] = 0xfe;
  out.ip[1] = 0x80;
  out.ip[13] = net;
  out.ip[15] = static_cast<std::uint8_t>(1 + server);
  return out;
}

bool is_name_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

Status store(std::string_view key, std::string_view value, LabState& state) {
  if (key == "name") {
    state.plan.name = value;
    return {};
  }
  if (key == "fabric" && (value == "rails" || value == "routed")) {
    state.plan.fabric = value == "rails" ? Fabric::kRails : Fabric::kRouted;
    return {};
  }
  if (key == "ipv6" && (value == "0" || value == "1")) {
    state.plan.ipv6 = value == "1";
    return {};
  }
  const Result<std::uint64_t> number = parse_integer(value);
  if (!number) return std::unexpected(number.error());
  if (key == "servers") {
    state.plan.servers = *number;
  } else if (key == "nics") {
    state.plan.nics = *number;
  } else if (key == "rate_bytes_s") {
    state.plan.rate_bytes_s = *number;
  } else if (key == "process") {
    state.process = *number;
  } else if (key == "kept" && *number <= 1) {
    state.kept = *number == 1;
  } else {
    return fail(Fault::kMisuse, "it is none of those there are");
  }
  return {};
}

}  // namespace

Status check_name(std::string_view name) {
  if (!name.empty() && name.size() <= kNameMax && std::ranges::all_of(name, is_name_letter)) return {};
  return fail(Fault::kMisuse,
              fmt::format("'{}' is no name of a lab: letters, digits, '-' and '_', {} at most", name, kNameMax));
}

Status check(const LabPlan& plan) {
  if (const Status named = check_name(plan.name); !named) return named;
  if (plan.servers < 1 || plan.servers > kServersMax)
    return fail(Fault::kMisuse, fmt::format("{} servers are not from 1 to {}", plan.servers, kServersMax));
  if (plan.nics < 1 || plan.nics > kRailsMax)
    return fail(Fault::kMisuse, fmt::format("{} NICs are not from 1 to {}", plan.nics, kRailsMax));
  if (plan.rate_bytes_s < kRateMin || plan.rate_bytes_s > kRateMax) {
    return fail(Fault::kMisuse, fmt::format("a rate of {} is not from {} to {}", rate_text(plan.rate_bytes_s),
                                            rate_text(kRateMin), rate_text(kRateMax)));
  }
  return {};
}

std::string server_namespace(const LabPlan& plan, std::uint64_t server) {
  return fmt::format("r2ccl-{}-s{}", plan.name, server);
}
std::string switch_namespace(const LabPlan& plan) {
  return fmt::format("r2ccl-{}-switch", plan.name);
}
std::vector<std::string> namespaces(const LabPlan& plan) {
  std::vector<std::string> names{switch_namespace(plan)};
  for (std::uint64_t server = 0; server < plan.servers; ++server) names.push_back(server_namespace(plan, server));
  return names;
}

std::string nic_name(std::uint64_t nic) {
  return fmt::format("eth{}", nic);
}
std::string port_name(std::uint64_t server, std::uint64_t nic) {
  return fmt::format("s{}p{}", server, nic);
}
std::string bridge_name(const LabPlan& plan, std::uint64_t nic) {
  return plan.fabric == Fabric::kRails ? fmt::format("rail{}", nic) : "spine";
}
std::vector<std::string> bridges(const LabPlan& plan) {
  std::set<std::string> names{std::string(kManagementBridge)};
  for (std::uint64_t nic = 0; nic < plan.nics; ++nic) names.insert(bridge_name(plan, nic));
  return {names.begin(), names.end()};
}

Address nic_address(const LabPlan& plan, std::uint64_t server, std::uint64_t nic) {
  return address(plan, static_cast<std::uint8_t>(kFirstNet + nic), server);
}
Address management_address(const LabPlan& plan, std::uint64_t server) {
  return address(plan, kManagementNet, server);
}

std::string host_names(const LabPlan& plan) {
  std::string lines = "127.0.0.1 localhost\n::1 localhost\n";
  for (std::uint64_t server = 0; server < plan.servers; ++server) {
    lines += fmt::format("{} server{}\n", to_text(nic_address(plan, server, 0)), server);
    lines += fmt::format("{} server{}-mgmt\n", to_text(management_address(plan, server)), server);
  }
  return lines;
}

std::vector<Cable> cables(const LabPlan& plan, std::uint64_t server) {
  std::vector<Cable> out;
  for (std::uint64_t nic = 0; nic < plan.nics; ++nic) {
    Cable cable{.nic = nic_name(nic),
                .port = port_name(server, nic),
                .bridge = bridge_name(plan, nic),
                .address = nic_address(plan, server, nic),
                .link_local = link_local(plan, static_cast<std::uint8_t>(kFirstNet + nic), server),
                .rate_bytes_s = plan.rate_bytes_s,
                .table = std::nullopt};
    if (plan.fabric == Fabric::kRouted) cable.table = kFirstTable + nic;
    out.push_back(std::move(cable));
  }
  out.push_back({.nic = std::string(kManagementNic),
                 .port = fmt::format("s{}m", server),
                 .bridge = std::string(kManagementBridge),
                 .address = management_address(plan, server),
                 .link_local = link_local(plan, kManagementNet, server),
                 .rate_bytes_s = 0,
                 .table = std::nullopt});
  return out;
}

Shape shape_of(std::uint64_t rate_bytes_s) {
  // A millisecond at once, as the timers of the kernel may be late; 20 ms in the queue, as switches have. A bucket that
  // takes over two minutes to fill can not be said in 32 bits.
  const std::uint64_t burst = std::min(std::max(kBurstMin, rate_bytes_s / 1000), rate_bytes_s * 60);
  const std::uint64_t limit = burst + std::max(kLimitMin, rate_bytes_s / 50);
  return {.rate_bytes_s = rate_bytes_s, .burst_bytes = burst, .limit_bytes = limit};
}

std::string to_text(const LabState& state) {
  const LabPlan& plan = state.plan;
  return fmt::format("name={}\nservers={}\nnics={}\nrate_bytes_s={}\nfabric={}\nipv6={}\nprocess={}\nkept={}\n",
                     plan.name, plan.servers, plan.nics, plan.rate_bytes_s,
                     plan.fabric == Fabric::kRails ? "rails" : "routed", plan.ipv6 ? 1 : 0, state.process,
                     state.kept ? 1 : 0);
}

Result<LabState> parse_state(std::string_view text) {
  LabState state;
  std::set<std::string_view> seen;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto equals = std::min(line.find('='), line.size());
    const std::string_view key = line.substr(0, equals);
    const Status stored = store(key, line.substr(std::min(equals + 1, line.size())), state);
    if (!stored) return fail(Fault::kMisuse, fmt::format("the line '{}': {}", line, stored.error().what));
    seen.insert(key);
  }
  constexpr std::size_t kKeys = 8;
  if (seen.size() != kKeys) return fail(Fault::kMisuse, fmt::format("{} of {} lines are there", seen.size(), kKeys));
  if (const Status checked = check(state.plan); !checked) return std::unexpected(checked.error());
  return state;
}

}  // namespace r2ccl::lab
