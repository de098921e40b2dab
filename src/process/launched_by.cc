#include "process/launched_by.h"

#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>

#include "base/units.h"
#include "topology/discover/discover.h"

namespace r2ccl {
namespace {

constexpr std::uint16_t kMasterPort = 29500;  // torchrun's default
constexpr std::uint16_t kPortsFrom = 20000;
constexpr std::uint16_t kPorts = 12000;

using Environment = std::span<const std::string_view>;

// Of a repeated name the first counts, as in Settings.
std::optional<std::string> value_of(Environment environment, std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (const std::string_view line : environment) {
    if (line.size() <= name.size() || line[name.size()] != '=' || !line.starts_with(name)) continue;
    const std::string_view value = line.substr(name.size() + 1);
    return value.empty() ? std::nullopt : std::optional(std::string(value));
  }
  return std::nullopt;
}

// FNV-1a: the same in every rank.
std::uint16_t port_from(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return static_cast<std::uint16_t>(kPortsFrom + (hash >> 20) % kPorts);
}

Result<std::uint32_t> number_of(std::string_view name, const std::string& text, std::uint64_t most) {
  const Result<std::uint64_t> number = parse_integer(text);
  if (!number || *number > most)
    return fail(Fault::kMisuse, fmt::format("{}: '{}' is not a number from 0 to {}", name, text, most));
  return static_cast<std::uint32_t>(*number);
}

// ---- rank and size ----------------------------------------------------------------------------------------------

enum class Kind : std::uint8_t { kOurs, kTorch, kOpenMpi, kPmi, kSlurm };

struct Row {
  Kind kind;
  std::string_view name;
  std::string_view rank;
  std::array<std::string_view, 2> size;  // the first that is set counts
  std::string_view local_rank;
};

constexpr Row kRows[] = {
    {Kind::kOurs, "r2ccl run", "R2CCL_RANK", {"R2CCL_SIZE"}, "R2CCL_LOCAL_RANK"},
    {Kind::kTorch, "torchrun", "RANK", {"WORLD_SIZE"}, "LOCAL_RANK"},
    {Kind::kOpenMpi, "Open MPI", "OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE"}, "OMPI_COMM_WORLD_LOCAL_RANK"},
    {Kind::kPmi, "PMI", "PMI_RANK", {"PMI_SIZE"}, "MPI_LOCALRANKID"},
    {Kind::kSlurm, "Slurm", "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, "SLURM_LOCALID"},
};

struct Standing {
  const Row* row = nullptr;  // null: no launcher
  Launched launch;
};

Result<Standing> standing_of(Environment environment) {
  for (const Row& row : kRows) {
    const auto rank = value_of(environment, row.rank);
    std::string_view size_name = row.size[0];
    auto size = value_of(environment, size_name);
    if (!size && !row.size[1].empty()) size = value_of(environment, size_name = row.size[1]);
    if (!rank && (!size || row.kind == Kind::kSlurm)) continue;
    if (!rank || !size) {
      return fail(Fault::kMisuse, fmt::format("{} is set but {} is not: a rank of a job needs both",
                                              rank ? row.rank : size_name, rank ? size_name : row.rank));
    }
    const auto rank_number = number_of(row.rank, *rank, std::numeric_limits<std::uint32_t>::max() - 1);
    if (!rank_number) return std::unexpected(rank_number.error());
    const auto size_number = number_of(size_name, *size, std::numeric_limits<std::uint32_t>::max());
    if (!size_number) return std::unexpected(size_number.error());
    if (*rank_number >= *size_number) {
      return fail(Fault::kMisuse, fmt::format("{} is {}, which is not one of the {} ranks that {} says", row.rank,
                                              *rank_number, *size_number, size_name));
    }
    Standing standing{&row, {}};
    standing.launch.launcher = row.name;
    standing.launch.rank = *rank_number;
    standing.launch.size = *size_number;
    if (const auto local = value_of(environment, row.local_rank)) {
      const auto number = number_of(row.local_rank, *local, standing.launch.size - 1);
      if (!number) return std::unexpected(number.error());
      standing.launch.local_rank = *number;
    }
    return standing;
  }
  return Standing{};
}

// ---- where to meet ----------------------------------------------------------------------------------------------

Result<HostAndPort> named_master(const std::string& host, const std::optional<std::string>& port_text) {
  std::uint32_t port = kMasterPort;
  if (port_text) {
    const auto number = number_of("MASTER_PORT", *port_text, 65535);
    if (!number) return std::unexpected(number.error());
    port = *number;
  }
  return HostAndPort{host, port_beside(static_cast<std::uint16_t>(port))};
}

// "1234.0;tcp://10.0.0.1,172.17.0.1:41235": the first address.
std::optional<std::string> host_of_hnp(const std::string& uri) {
  constexpr std::string_view kScheme = "tcp://";
  const auto scheme = uri.find(kScheme);
  if (scheme == std::string::npos) return std::nullopt;
  const auto begin = scheme + kScheme.size();
  std::string host = uri.substr(begin, uri.find_first_of(",:;", begin) - begin);
  if (host.empty() || !Address::parse(host)) return std::nullopt;
  return host;
}

// "node[03-05,9],other" begins with node03.
std::string first_host(const std::string& list) {
  const auto bracket = list.find('[');
  const auto comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const auto end = list.find_first_of("-,]", bracket + 1);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

Result<HostAndPort> master_of_open_mpi(Environment environment, const Launched& launch) {
  auto job = value_of(environment, "OMPI_MCA_ess_base_jobid");
  if (!job) job = value_of(environment, "PMIX_NAMESPACE");
  const bool one_machine = value_of(environment, "OMPI_COMM_WORLD_LOCAL_SIZE") == fmt::format("{}", launch.size);
  if (job && one_machine) return HostAndPort{"127.0.0.1", port_from(*job)};
  const auto uri = value_of(environment, "OMPI_MCA_orte_hnp_uri");
  if (const auto host = uri ? host_of_hnp(*uri) : std::nullopt; job && host) return HostAndPort{*host, port_from(*job)};
  return fail(
      Fault::kMisuse,
      "Open MPI started this rank on several machines without an address to meet at: add -x MASTER_ADDR=<rank 0's "
      "address> to mpirun");
}

Result<HostAndPort> master_of_slurm(Environment environment) {
  const std::string job = fmt::format("{}.{}", value_of(environment, "SLURM_JOB_ID").value_or(""),
                                      value_of(environment, "SLURM_STEP_ID").value_or(""));
  if (const auto list = value_of(environment, "SLURM_STEP_NODELIST"))
    return HostAndPort{first_host(*list), port_from(job)};
  if (const auto host = value_of(environment, "SLURM_LAUNCH_NODE_IPADDR")) return HostAndPort{*host, port_from(job)};
  return fail(Fault::kMisuse,
              "Slurm says neither SLURM_STEP_NODELIST nor SLURM_LAUNCH_NODE_IPADDR: start the ranks with srun, or set "
              "MASTER_ADDR to rank 0's address");
}

Result<HostAndPort> master_of(Environment environment, Kind kind, const Launched& launch) {
  if (const auto text = value_of(environment, "NCCL_COMM_ID")) return parse_comm_id(*text);
  const auto port = value_of(environment, "MASTER_PORT");
  if (const auto host = value_of(environment, "MASTER_ADDR")) return named_master(*host, port);
  if (port) return fail(Fault::kMisuse, "MASTER_PORT is set but MASTER_ADDR is not: set it to rank 0's address");
  if (launch.size == 1) return HostAndPort{};
  if (kind == Kind::kOpenMpi) return master_of_open_mpi(environment, launch);
  if (kind == Kind::kSlurm) return master_of_slurm(environment);
  return fail(Fault::kMisuse, fmt::format("{} says rank {} of {} but not where they meet: set MASTER_ADDR to rank 0's "
                                          "address, or NCCL_COMM_ID to host:port",
                                          launch.launcher, launch.rank, launch.size));
}

Address from_sockaddr(const sockaddr& raw, std::uint16_t port) {
  Address address;
  if (raw.sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &raw, sizeof v6);
    std::memcpy(address.ip.data(), &v6.sin6_addr, address.ip.size());
    std::array<char, IF_NAMESIZE> zone{};
    if (address.is_link_local() && ::if_indextoname(v6.sin6_scope_id, zone.data()) != nullptr)
      address = address.in_zone(zone.data());
  } else {
    sockaddr_in v4{};
    std::memcpy(&v4, &raw, sizeof v4);
    std::array<std::uint8_t, 4> ip{};
    std::memcpy(ip.data(), &v4.sin_addr, ip.size());
    address = Address::v4(ip[0], ip[1], ip[2], ip[3]);
  }
  address.port = port;
  return address;
}

// Names that mean this machine wherever they are looked up.
bool is_localhost(std::string_view host) {
  return host == "localhost" || host.ends_with(".localhost");
}

}  // namespace

std::uint16_t port_beside(std::uint16_t master_port) {
  const std::uint16_t port = port_from(fmt::format("beside {}", master_port));
  return port == master_port ? port + 1 : port;
}

Result<std::optional<Launched>> find_launch(std::span<const std::string_view> environment) {
  auto standing = standing_of(environment);
  if (!standing) return std::unexpected(standing.error());
  if (standing->row == nullptr) return std::nullopt;
  Launched launch = std::move(standing->launch);
  if (const auto hex = value_of(environment, "R2CCL_UNIQUE_ID")) {
    auto id = UniqueId::from_hex(*hex);
    if (!id) return fail(Fault::kMisuse, fmt::format("R2CCL_UNIQUE_ID: {}", id.error().what));
    launch.id = std::move(*id);
    return launch;
  }
  auto place = master_of(environment, standing->row->kind, launch);
  if (!place) return std::unexpected(place.error());
  launch.host = std::move(place->host);
  launch.port = place->port;
  return launch;
}

Result<HostAndPort> parse_comm_id(const std::string& text) {
  const auto bad = [&] { return fail(Fault::kMisuse, fmt::format("NCCL_COMM_ID: '{}' is not host:port", text)); };
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad();
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const auto port = number_of("NCCL_COMM_ID", text.substr(colon + 1), 65535);
  if (!port || *port == 0 || host.empty()) return bad();
  return HostAndPort{host, static_cast<std::uint16_t>(*port)};
}

Result<MeetingPlace> resolve(const std::string& host, std::uint16_t port) {
  if (auto address = Address::parse(host); address && address->port == 0) {
    address->port = port;
    return MeetingPlace{host, {*address}, false};
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return fail(Fault::kMisuse, fmt::format("the ranks are to meet at '{}', which can not be looked up: {}", host,
                                            ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  MeetingPlace place{host, {}, !is_localhost(host)};
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    const Address address = from_sockaddr(*one->ai_addr, port);
    if (std::ranges::find(place.addresses, address) == place.addresses.end()) place.addresses.push_back(address);
  }
  if (place.addresses.empty())
    return fail(Fault::kMisuse, fmt::format("the ranks are to meet at '{}', which has no address", host));
  std::ranges::stable_partition(place.addresses, &Address::is_v4);
  if (!std::ranges::all_of(place.addresses, &Address::is_loopback))
    std::erase_if(place.addresses, [](const Address& address) { return address.is_loopback(); });
  return place;
}

Result<std::optional<MeetingPlace>> place_of(const Launched& launch) {
  if (launch.id || launch.host.empty()) return std::nullopt;
  auto place = resolve(launch.host, launch.port);
  if (!place) return std::unexpected(place.error());
  return std::move(*place);
}

Settings settings_for(const Settings& settings, const std::optional<MeetingPlace>& place) {
  Settings mine = settings;
  if (!place || !mine.nics.empty() || !place->addresses.front().is_loopback()) return mine;
  if (place->named && discover_nics(nic_request(settings))) return mine;
  Address nic = place->addresses.front();
  nic.port = 0;
  mine.nics = {to_text(nic)};
  return mine;
}

Result<UniqueId> meet(World& world, const Launched& launch) {
  if (launch.id) return *launch.id;
  if (launch.host.empty()) return world.make_id();
  return world.fixed_id(launch.rank == 0);
}

}  // namespace r2ccl
