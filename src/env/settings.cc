#include "env/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <variant>

#include "base/units.h"

namespace r2ccl {
namespace {

constexpr std::string_view kPrefix = "R2CCL_";
constexpr std::string_view kSeedMode = "R2CC_MODE";

struct Rate {
  std::uint64_t Settings::* field;
};
struct Choice {
  std::string Settings::* field;
};
struct SecretField {
  std::string Settings::* field;
};
using SettingField = std::variant<Duration Settings::*, std::uint64_t Settings::*,
                                  std::optional<std::uint64_t> Settings::*, bool Settings::*, std::string Settings::*,
                                  std::vector<std::string> Settings::*, Rate, Choice, SecretField>;

struct SettingRow {
  std::string_view name;
  std::string_view default_value;
  SettingField field;
  std::string_view choices;
  std::string_view meaning;
};

using S = Settings;
using SizeField = std::uint64_t Settings::*;

const SettingRow kEntries[] = {
    {"R2CCL_NICS", "", &S::nics, "", "interfaces or addresses to use, separated by commas; unset: all that are found"},
    {"R2CCL_NIC_SPEED", "", Rate{&S::nic_speed_bytes_s}, "",
     "speed of every NIC, e.g. 25gbit, for plans; unset: as interfaces tell it, which virtual ones do wrong"},
    {"R2CCL_CHUNK_BYTES", "512K", &S::chunk_bytes, "", "largest unit of transfer, receipt and replay"},
    {"R2CCL_PEER_TIMEOUT", "60s", &S::peer_timeout, "", "how long to wait for a path to a peer that has none left"},
    {"R2CCL_CHECKSUM", "wire", Choice{&S::checksum}, "wire|on|off",
     "checksum over every payload that leaves this machine, over every one, or over none"},
    {"R2CCL_FAULT", "", &S::fault, "", "fault to inject, e.g. 'at=2s server=0 nic=1 kind=blackhole'"},
    {"R2CCL_SECRET", "", SecretField{&S::secret}, "",
     "what processes prove to each other where no unique id carries a secret"},
    {"R2CCL_HEARTBEAT", "1s", &S::heartbeat, "", "how often an idle path is tried"},
    {"R2CCL_SUSPECT_AFTER", "25ms", &S::suspect_after, "", "shortest silence that makes a path suspect"},
    {"R2CCL_DOWN_AFTER", "150ms", &S::down_after, "", "silence that takes a path down"},
    {"R2CCL_RETRY_MIN", "100ms", &S::retry_min, "", "first wait before a dead path is tried again"},
    {"R2CCL_RETRY_MAX", "30s", &S::retry_max, "", "longest wait before a dead path is tried again"},
    {"R2CCL_PROBATION_MIN", "500ms", &S::probation_min, "", "shortest clean time before a path that came back is used"},
    {"R2CCL_PROBATION_MAX", "60s", &S::probation_max, "", "longest such time, for paths that keep failing"},
    {"R2CCL_SPIN", "1ms", &S::spin, "", "how long a waiting thread polls before it sleeps"},
    {"R2CCL_SHM", "on", &S::shared_memory, "", "ranks of one server exchange data through memory they share"},
    {"R2CCL_STATS", "/dev/shm/r2ccl", &S::stats, "",
     "directory where 'r2ccl status' finds how this process gets on; off: nowhere"},
    {"R2CCL_FABRIC", "routed", Choice{&S::fabric}, "routed|rails",
     "whether any NIC reaches any NIC, or only its own rail"},
    {"R2CCL_NET_DEVICES", "pooled", Choice{&S::net_devices}, "pooled|per-nic",
     "what NCCL sees through the net plugin: one device with the speed of all NICs, or one per NIC"},
    {"R2CCL_SERVER", "", &S::server, "", "which server this process plays, for several servers on one machine"},
    {"R2CCL_SOCKET_BUFFER", "0", &S::socket_buffer_bytes, "",
     "kernel buffer of each connection; 0: the system's choice"},
    {"R2CCL_TCP_CONGESTION", "", &S::tcp_congestion, "",
     "TCP congestion control by name; unset: the system's, but cubic where that is bbr"},
    {"R2CCL_MODE", "auto", Choice{&S::mode}, "off|repair|balance|r2|optcc|direct|trees|auto",
     "how collectives answer failures: not, by repair alone, by a ring that fits, by one algorithm, or by the best"},
    {"R2CCL_ALGO", "", &S::algorithm, "", "algorithm by name, where it applies; unset: as R2CCL_MODE says"},
    {"R2CCL_RANK", "", &S::rank, "", "rank of this process in its job; r2ccl run sets it"},
    {"R2CCL_SIZE", "", &S::size, "", "ranks in the job; r2ccl run sets it"},
    {"R2CCL_LOCAL_RANK", "", &S::local_rank, "", "rank among those of this server; r2ccl run sets it"},
    {"R2CCL_UNIQUE_ID", "", SecretField{&S::unique_id}, "",
     "id of a rendezvous that is already hosted, in hex; unset: rank 0 hosts it"},
    {kSeedMode, "", Choice{&S::seed_mode}, "0|1|2|3",
     "where R2CCL_MODE is unset: off, repair, balance, r2; 1 to 3 also lose a NIC for good unless R2CCL_FAULT is set"},
    {"NCCL_DEBUG", "WARN", Choice{&S::debug}, "VERSION|WARN|INFO|TRACE", "how much is logged"},
    {"NCCL_DEBUG_FILE", "", &S::debug_file, "", "log file; %h is the host, %p the process id"},
    {"NCCL_SOCKET_IFNAME", "", &S::socket_ifname, "",
     "interface prefixes to use (or ^ not to use) when NICs are found"},
    {"NCCL_HOSTID", "", &S::host_id, "", "names the server in place of the host's own identity"},
    {"NCCL_COMM_ID", "", &S::comm_id, "",
     "host:port where rank 0 hosts the rendezvous, at any interface of its server"},
};

template <class... F>
struct Overload : F... {
  using F::operator()...;
};

SettingType type_of(const SettingField& field) {
  return std::visit(
      Overload{[](Duration S::*) { return SettingType::kDuration; }, [](SizeField) { return SettingType::kBytes; },
               [](std::optional<std::uint64_t> S::*) { return SettingType::kInteger; },
               [](bool S::*) { return SettingType::kBoolean; }, [](std::string S::*) { return SettingType::kText; },
               [](std::vector<std::string> S::*) { return SettingType::kList; },
               [](Rate) { return SettingType::kRate; }, [](Choice) { return SettingType::kChoice; },
               [](SecretField) { return SettingType::kText; }},
      field);
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(at), text.size());
    if (end != 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

Result<bool> parse_boolean(std::string_view text) {
  const std::string word = lower(text);
  if (word == "on" || word == "1" || word == "yes" || word == "true") return true;
  if (word == "off" || word == "0" || word == "no" || word == "false") return false;
  return fail(Fault::kMisuse, fmt::format("'{}' is neither on nor off", text));
}

Result<std::string> parse_choice(std::string_view text, std::string_view choices) {
  for (const std::string& choice : split(choices, '|')) {
    if (lower(choice) == lower(text)) return choice;
  }
  return fail(Fault::kMisuse, fmt::format("'{}' is none of {}", text, choices));
}

template <class T, class U>
Status store(T& field, Result<U> value) {
  if (!value) return std::unexpected(value.error());
  field = *std::move(value);
  return {};
}

Status assign(Settings& settings, const SettingRow& entry, std::string_view text) {
  return std::visit(
      Overload{
          [&](Duration S::* field) { return store(settings.*field, parse_duration(text)); },
          [&](SizeField field) { return store(settings.*field, parse_bytes(text)); },
          [&](std::optional<std::uint64_t> S::* field) { return store(settings.*field, parse_integer(text)); },
          [&](bool S::* field) { return store(settings.*field, parse_boolean(text)); },
          [&](std::string S::* field) { return store(settings.*field, Result<std::string>(std::string(text))); },
          [&](std::vector<std::string> S::* field) {
            return store(settings.*field, Result<std::vector<std::string>>(split(text, ',')));
          },
          [&](Rate rate) { return store(settings.*rate.field, parse_rate(text)); },
          [&](Choice choice) { return store(settings.*choice.field, parse_choice(text, entry.choices)); },
          [&](SecretField hidden) { return store(settings.*hidden.field, Result<std::string>(std::string(text))); }},
      entry.field);
}

// How many letters must be added, dropped or changed.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

std::string_view nearest(std::string_view name) {
  // A name of any length may stand in the environment; what differs beyond this is no misspelling.
  constexpr std::size_t kCompared = 64;
  const std::string_view head = name.substr(0, kCompared);
  std::string_view best;
  std::size_t best_distance = 0;
  for (const SettingRow& entry : kEntries) {
    if (!entry.name.starts_with(kPrefix)) continue;
    const std::size_t distance = edit_distance(head, entry.name);
    if (!best.empty() && distance >= best_distance) continue;
    best = entry.name;
    best_distance = distance;
  }
  return best;
}

struct SeedMode {
  std::string_view mode;
  SeedLoss loss;
};

// R2CC_MODE, the older name, counts only if R2CCL_MODE is not set.
void use_seed_mode(Settings& settings, bool mode_is_set) {
  constexpr std::array<SeedMode, 4> kModes = {{{"off", SeedLoss::kNone},
                                               {"repair", SeedLoss::kInACall},
                                               {"balance", SeedLoss::kBeforeCalls},
                                               {"r2", SeedLoss::kBeforeCalls}}};
  if (settings.seed_mode.empty() || mode_is_set) return;
  const SeedMode& asked = kModes[static_cast<std::size_t>(settings.seed_mode.front() - '0')];
  settings.mode = asked.mode;
  if (settings.fault.empty()) settings.seed_loss = asked.loss;
}

const SettingRow* find(std::string_view name) {
  const auto* const it = std::ranges::find(kEntries, name, &SettingRow::name);
  return it == std::end(kEntries) ? nullptr : it;
}

Status check_range(const Settings& s) {
  // Frames carry a chunk's length in 32 bits and receivers bound what they accept.
  constexpr std::uint64_t kChunkMin = 4 * 1024;
  constexpr std::uint64_t kChunkMax = 4 * 1024 * 1024;
  constexpr std::uint64_t kSocketBufferMax = 1024 * 1024 * 1024;
  constexpr std::uint64_t kNicSpeedMax = 10'000'000'000'000 / 8;
  if (s.chunk_bytes < kChunkMin || s.chunk_bytes > kChunkMax)
    return fail(Fault::kMisuse, "R2CCL_CHUNK_BYTES must be between 4K and 4M");
  if (s.socket_buffer_bytes > kSocketBufferMax) return fail(Fault::kMisuse, "R2CCL_SOCKET_BUFFER must be at most 1G");
  if (s.nic_speed_bytes_s > kNicSpeedMax) return fail(Fault::kMisuse, "R2CCL_NIC_SPEED must be at most 10000gbit");
  if (s.retry_min > s.retry_max) return fail(Fault::kMisuse, "R2CCL_RETRY_MIN must not exceed R2CCL_RETRY_MAX");
  if (s.probation_min > s.probation_max)
    return fail(Fault::kMisuse, "R2CCL_PROBATION_MIN must not exceed R2CCL_PROBATION_MAX");
  constexpr Duration kLongest = 24h * 365;
  for (const SettingRow& entry : kEntries) {
    const auto* const field = std::get_if<Duration S::*>(&entry.field);
    if (field == nullptr) continue;
    const bool may_be_zero = *field == &S::spin || *field == &S::probation_min || *field == &S::probation_max;
    if (s.*(*field) == Duration::zero() && !may_be_zero)
      return fail(Fault::kMisuse, fmt::format("{} must not be 0", entry.name));
    if (s.*(*field) > kLongest) return fail(Fault::kMisuse, fmt::format("{} must be at most a year", entry.name));
  }
  return {};
}

// Uses the largest unit that divides it, and writes it as parse_duration and parse_bytes read it.
std::string written(Duration value) {
  const auto ns = value.count();
  if (ns == 0) return "0";
  if (ns % 1'000'000'000 == 0) return fmt::format("{}s", ns / 1'000'000'000);
  if (ns % 1'000'000 == 0) return fmt::format("{}ms", ns / 1'000'000);
  if (ns % 1'000 == 0) return fmt::format("{}us", ns / 1'000);
  return fmt::format("{}ns", ns);
}

std::string written(std::uint64_t bytes) {
  for (const auto& [shift, letter] : {std::pair{30, 'G'}, std::pair{20, 'M'}, std::pair{10, 'K'}}) {
    if (bytes != 0 && bytes % (1ull << shift) == 0) return fmt::format("{}{}", bytes >> shift, letter);
  }
  return fmt::format("{}", bytes);
}

std::string written_rate(std::uint64_t bytes_s) {
  if (bytes_s == 0) return "";
  const std::uint64_t bits = bytes_s * 8;
  for (const auto& [unit, name] : {std::pair{1'000'000'000ull, "gbit"}, std::pair{1'000'000ull, "mbit"}}) {
    if (bits % unit == 0) return fmt::format("{}{}", bits / unit, name);
  }
  return fmt::format("{}bit", bits);
}

}  // namespace

const char* to_text(SettingType type) {
  switch (type) {
    case SettingType::kDuration:
      return "duration";
    case SettingType::kBytes:
      return "size";
    case SettingType::kRate:
      return "rate";
    case SettingType::kInteger:
      return "number";
    case SettingType::kBoolean:
      return "on|off";
    case SettingType::kChoice:
      return "choice";
    case SettingType::kText:
      return "text";
    case SettingType::kList:
      return "list";
  }
  return "unknown type";
}

LogLevel Settings::log_level() const {
  if (debug == "VERSION") return LogLevel::kError;
  if (debug == "INFO") return LogLevel::kInfo;
  if (debug == "TRACE") return LogLevel::kDebug;
  return LogLevel::kWarn;
}

Result<Settings> Settings::parse(std::span<const std::string_view> environment) {
  Settings settings;
  std::set<std::string_view> seen;
  bool mode_is_set = false;
  for (const std::string_view line : environment) {
    const auto equals = line.find('=');
    const std::string_view name = line.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : line.substr(equals + 1);
    const bool ours = name.starts_with(kPrefix) || name == kSeedMode;
    const SettingRow* const entry = find(name);
    if (entry == nullptr && ours)
      return fail(Fault::kMisuse, fmt::format("there is no setting {}; did you mean {}?", name, nearest(name)));
    if (entry == nullptr || !seen.insert(name).second || value.empty()) continue;
    const Status stored = assign(settings, *entry, value);
    mode_is_set |= name == "R2CCL_MODE";
    if (!stored && ours) return fail(Fault::kMisuse, fmt::format("{}: {}", name, stored.error().what));
  }
  use_seed_mode(settings, mode_is_set);
  if (Status range = check_range(settings); !range) return std::unexpected(range.error());
  return settings;
}

std::vector<SettingInfo> Settings::list() {
  std::vector<SettingInfo> rows;
  for (const SettingRow& entry : kEntries)
    rows.push_back({entry.name, entry.default_value, type_of(entry.field), entry.choices, entry.meaning});
  return rows;
}

std::string Settings::value_text(std::string_view name) const {
  const SettingRow* const entry = find(name);
  if (entry == nullptr) return "";
  return std::visit(
      Overload{[&](Duration S::* field) { return written(this->*field); },
               [&](SizeField field) { return written(this->*field); },
               [&](std::optional<std::uint64_t> S::* field) {
                 return this->*field ? fmt::format("{}", *(this->*field)) : std::string();
               },
               [&](bool S::* field) { return std::string(this->*field ? "on" : "off"); },
               [&](std::string S::* field) { return this->*field; },
               [&](std::vector<std::string> S::* field) { return fmt::format("{}", fmt::join(this->*field, ",")); },
               [&](Rate rate) { return written_rate(this->*rate.field); },
               [&](Choice choice) { return this->*choice.field; },
               [&](SecretField hidden) { return std::string((this->*hidden.field).empty() ? "" : "(set)"); }},
      entry->field);
}

std::vector<std::string_view> environment_of(const char* const* environ_array) {
  std::vector<std::string_view> lines;
  for (; environ_array != nullptr && *environ_array != nullptr; ++environ_array) lines.emplace_back(*environ_array);
  return lines;
}

}  // namespace r2ccl
