#pragma once
// Everything a user can set from the environment, as values. Whoever owns the process hands its environment in
// once, and nothing below reads it. The registry is data, so parsing, `r2ccl settings` and the documentation can
// not drift apart.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "env/env.h"

namespace r2ccl {

enum class SettingType : std::uint8_t { kDuration, kBytes, kRate, kInteger, kBoolean, kChoice, kText, kList };
const char* to_text(SettingType type);

// For people: one row of `r2ccl settings`.
struct SettingInfo {
  std::string_view name;           // "R2CCL_PEER_TIMEOUT"
  std::string_view default_value;  // as it would be written; "" = unset
  SettingType type;
  std::string_view choices;  // kChoice: "routed|rails"
  std::string_view meaning;
};

// What R2CC_MODE asks for besides a mode: one NIC of one server is lost for good (process/seed_loss.h).
enum class SeedLoss : std::uint8_t { kNone, kInACall, kBeforeCalls };

struct Settings {
  std::vector<std::string> nics;        // interface names or addresses; empty = discover
  std::uint64_t nic_speed_bytes_s = 0;  // 0 = as interfaces tell it
  std::uint64_t chunk_bytes = 512 * 1024;
  Duration peer_timeout = 60s;
  std::string checksum = "wire";  // or "on", "off": over payloads that leave this machine, over all, over none
  std::string fault;
  std::string secret;  // never printed
  Duration heartbeat = 1s;
  Duration suspect_after = 25ms;
  Duration down_after = 150ms;
  Duration retry_min = 100ms;
  Duration retry_max = 30s;
  Duration probation_min = 500ms;
  Duration probation_max = 60s;
  Duration spin = 1ms;
  bool shared_memory = true;
  std::string stats = "/dev/shm/r2ccl";   // directory of the page that shows how this process gets on; "off": none
  std::string fabric = "routed";          // or "rails"
  std::string net_devices = "pooled";     // or "per-nic": what NCCL sees through the net plugin
  std::optional<std::uint64_t> server;    // which server this process plays
  std::uint64_t socket_buffer_bytes = 0;  // 0 = the system's choice
  std::string tcp_congestion;             // empty = the system's choice, but not bbr
  std::string mode = "auto";              // how plans answer failures; comm/agreement/plans.h
  std::string algorithm;                  // one by name, where it applies; empty: as the mode says
  // Which process of its job this one is, as `r2ccl run` says it (process/launched_by.h knows the other launchers).
  std::optional<std::uint64_t> rank;
  std::optional<std::uint64_t> size;
  std::optional<std::uint64_t> local_rank;
  std::string unique_id;  // in hex; holds a secret, never printed

  // NCCL's own settings. We ignore what NCCL would ignore, so a job that starts with NCCL starts here too.
  std::string debug = "WARN";  // VERSION, WARN, INFO or TRACE
  std::string debug_file;      // %h host, %p process id
  std::string socket_ifname;
  std::string host_id;
  std::string comm_id;  // host:port of the rendezvous

  // R2CC_MODE, as examples of the first R2CCL set it. It is ignored if R2CCL_MODE is set. Otherwise `mode` follows it,
  // and `seed_loss` says what it takes away, unless R2CCL_FAULT is set.
  std::string seed_mode;
  SeedLoss seed_loss = SeedLoss::kNone;

  LogLevel log_level() const;

  // `environment` holds "NAME=value" strings, foreign names included; of a repeated name the first counts, an empty
  // value means unset. An unknown R2CCL_ name or a malformed value of a known one fails with kMisuse and one
  // sentence, which for a name suggests the nearest known one.
  static Result<Settings> parse(std::span<const std::string_view> environment);

  static std::vector<SettingInfo> list();
  // The value in force, as it would be written; a secret shows only that it is set.
  std::string value_text(std::string_view name) const;
};

// The environment of this process as parse() takes it: the `environ` of main(), ended by a null pointer. The views
// live as long as the array does.
std::vector<std::string_view> environment_of(const char* const* environ_array);

}  // namespace r2ccl
