#include "runtime/threads/process.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "base/assert.h"
#include "topology/discover/discover.h"
#include "transport/fault/fault_spec.h"
#include "transport/tcp/socket.h"

namespace r2ccl {
namespace {

// FNV-1a: the same on every machine and in every release.
std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::string boot_id() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  return text;
}

SessionConfig session_config(const Settings& settings) {
  SessionConfig config;
  config.limits.chunk_bytes = std::min<std::size_t>(settings.chunk_bytes, kPayloadBytesMax);
  config.limits.peer_timeout = settings.peer_timeout;
  config.limits.heartbeat = settings.heartbeat;
  config.silence.suspect_min = settings.suspect_after;
  config.silence.down = settings.down_after;
  config.comeback.retry_min = settings.retry_min;
  config.comeback.retry_max = settings.retry_max;
  config.comeback.probation_min = settings.probation_min;
  config.comeback.probation_max = settings.probation_max;
  config.fabric = settings.fabric == "rails" ? Fabric::kRails : Fabric::kRouted;
  return config;
}

// The NIC that leads there as routes are now.
Result<WayToPlace> find_way(const MeetingPlace& place, std::span<const Nic> data_nics) {
  std::vector<std::optional<Address>> sources;
  for (const Address& address : place.addresses) sources.push_back(source_towards(address));
  return way_to_place(place, data_nics, read_interfaces(), sources);
}

}  // namespace

bool checks_payloads(const Settings& settings, std::span<const Nic> nics) {
  if (settings.checksum != "wire") return settings.checksum == "on";
  return !std::ranges::all_of(nics, [](const Nic& nic) { return nic.address.is_loopback(); });
}

ServerId server_of(const Settings& settings) {
  if (settings.server) return {*settings.server};
  if (!settings.host_id.empty()) return {hash_text(settings.host_id)};
  return {hash_text(host_name() + boot_id())};
}

Result<std::unique_ptr<Process>> Process::create(const Settings& settings, const ProcessOptions& options) {
  auto nics = discover_nics(nic_request(settings));
  if (!nics) return std::unexpected(nics.error());
  EngineConfig config;
  config.session = session_config(settings);
  config.session.limits.copy_bytes_max = options.copy_bytes_max;
  config.session.limits.eager_message_max = options.eager_message_max;
  config.session.limits.eager_bytes = options.eager_bytes;
  config.session.limits.callers_copy = options.callers_copy;
  config.session.limits.hand_over_early = options.hand_over_early;
  config.server = server_of(settings);
  config.rank = options.rank;
  config.host = options.host.empty() ? host_name() : options.host;
  const bool checksum = checks_payloads(settings, *nics);
  std::vector<FaultSpec> faults;
  if (!settings.fault.empty()) {
    auto parsed = parse_faults(settings.fault);
    if (!parsed) return std::unexpected(parsed.error());
    faults = std::move(*parsed);
    if (const Status status = FaultProvider::check(faults, config.server, *nics); !status)
      return std::unexpected(status.error());
  }
  std::optional<NicId> place_host;
  if (options.place) {
    const auto way = find_way(*options.place, *nics);
    if (!way) return std::unexpected(way.error());
    nics->push_back(way->management);
    config.management_nic = way->management.id;
    config.place_nic = way->dial;
    place_host = way->host;
  }
  TcpConfig tcp;
  tcp.send_buffer_bytes = tcp.receive_buffer_bytes = static_cast<int>(settings.socket_buffer_bytes);
  tcp.congestion_control = settings.tcp_congestion;
  if (!tcp.congestion_control.empty() && !has_congestion_control(tcp.congestion_control)) {
    return fail(Fault::kMisuse, fmt::format("R2CCL_TCP_CONGESTION: this system has no '{}', or does not let us use it.",
                                            tcp.congestion_control));
  }
  auto dialer = TcpDialer::open(*nics, tcp);
  if (!dialer) return std::unexpected(dialer.error());

  std::unique_ptr<Process> process(new Process(settings, std::move(*dialer), faults, config, checksum, options.log));
  process->place_ = options.place;
  process->place_host_ = place_host;
  if (const Status status = process->engine_->listen(); !status) return std::unexpected(status.error());
  if (options.progress_thread) process->driver_->start();
  return process;
}

Process::Process(const Settings& settings, std::unique_ptr<TcpDialer> dialer, const std::vector<FaultSpec>& faults,
                 const EngineConfig& config, bool checksum, Log* log)
    : log_(log != nullptr ? *log : own_log_.emplace(settings.log_level(), settings.debug_file)),
      dialer_(std::move(dialer)) {
  ProcessId self;
  while (self.value == 0) self.value = random_.next();
  StreamLimits limits;
  limits.checksum = checksum;
  limits.align_payloads = true;
  streams_ = std::make_unique<StreamProvider>(*dialer_, keyring_, random_, self, limits);
  Provider* provider = streams_.get();
  if (!faults.empty() || settings.seed_loss != SeedLoss::kNone) {
    const FaultHooks hooks{[this](NicId nic, bool on) { dialer_->deafen_nic(nic, on); }};
    faults_ = std::make_unique<FaultProvider>(*streams_, config.server, faults, &telemetry_, hooks);
    provider = faults_.get();
  }
  if (!dialer_->carrier_status().empty()) log_.write(LogLevel::kWarn, dialer_->carrier_status());
  engine_ = std::make_unique<Engine>(Env{clock_, random_, log_}, *provider, keyring_, telemetry_, self, config);
  DriverConfig driver;
  driver.spin = settings.spin;
  constexpr unsigned kEnough =
      4;  // processors; with fewer, a caller that polls keeps the progress thread from its work
  if (processors() < kEnough) driver.long_turn = {};
  driver_ = std::make_unique<Driver>(*engine_, clock_, *dialer_, driver);
}

Process::~Process() {
  driver_->stop();
}

Result<UniqueId> Process::host(std::size_t expected) {
  Result<UniqueId> id = fail(Fault::kBug, "not asked yet");
  driver_->with_engine([&](Engine& engine) { id = engine.host(expected); });
  return id;
}

Result<UniqueId> Process::host_at_place(const Secret& secret) {
  R2CCL_ASSERT(place_.has_value(), "this process has no place to host at");
  const std::uint16_t port = place_->addresses.front().port;
  if (!place_host_) {
    return fail(Fault::kMisuse, fmt::format("the ranks are to meet at {}, port {}, but no interface of rank 0's server "
                                            "has that address: set MASTER_ADDR or NCCL_COMM_ID to one that has",
                                            place_->host, port));
  }
  Result<UniqueId> id = fail(Fault::kBug, "not asked yet");
  driver_->with_engine([&](Engine& engine) { id = engine.host_at({*place_host_, port, secret}, 0); });
  return id;
}

Status Process::join(const UniqueId& id, Duration within) {
  KeyId job;
  driver_->with_engine([&](Engine& engine) { job = engine.join(id); });
  const Instant deadline = clock_.now() + within;
  if (driver_->wait_until([](Engine& engine) { return engine.ready(); }, deadline)) return {};
  std::string why;
  driver_->with_engine([&](Engine& engine) { why = engine.join_failure(job); });
  if (why.empty()) {
    why = fmt::format("Not all processes have joined the job at {} within {:.0f} s.", to_text(id.root.front()),
                      to_seconds(within));
  }
  return fail(Fault::kPeerDown, why);
}

bool Process::finish() {
  driver_->with_engine([&](Engine& engine) { engine.finish(clock_.now()); });
  return driver_->wait_until([](Engine& engine) { return engine.finished(); }, clock_.now() + kFinishMax);
}

}  // namespace r2ccl
