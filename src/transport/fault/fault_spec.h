#pragma once
// A fault as people write it:
//
//   at=2s server=0 nic=1 kind=down|cable|blackhole|reset|slow:50mbit|flap:200ms [for=5s]
//
// `at` is a time after the start, `op:12` (when operation 12 starts) or `bytes:40%` (inside the collective, when
// that share of its bytes has moved). Without `for` the fault stays. Several faults are separated by ';'. Keys come
// in any order, once each.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/time.h"

namespace r2ccl {

enum class FaultKind : std::uint8_t {
  kDown,       // the NIC is switched off: carrier lost, connections fail at this end
  kCable,      // the cable is pulled: carrier lost, connections silent
  kBlackhole,  // nothing passes and nothing says so
  kReset,      // every connection of the NIC is reset, once
  kSlow,       // the NIC passes `rate` at most
  kFlap,       // the cable is pulled and put back, `period` each
};
const char* to_text(FaultKind kind);

struct FaultStart {
  enum class Unit : std::uint8_t { kTime, kOperation, kBytes } unit = Unit::kTime;
  Duration time{};              // kTime: after the first step
  std::uint64_t operation = 0;  // kOperation
  std::uint32_t share_ppm = 0;  // kBytes: millionths, 40 % = 400000
  friend bool operator==(const FaultStart&, const FaultStart&) = default;
};

struct FaultSpec {
  FaultStart at;
  ServerId server;
  NicId nic;
  FaultKind kind = FaultKind::kDown;
  std::uint64_t rate_bytes_s = 0;  // kSlow
  Duration period{};               // kFlap
  Duration lasting{};              // zero: for ever
  friend bool operator==(const FaultSpec&, const FaultSpec&) = default;
};

inline constexpr std::size_t kFaultsMax = 1024;       // faults in one text
inline constexpr Duration kFaultTimeMax = 24h * 365;  // the longest time in at=, for= and flap:
inline constexpr Duration kFlapPeriodMin = 1ms;
inline constexpr std::uint64_t kSlowRateMin = 125;  // 1 kbit/s: below this nothing would ever move

// Malformed text is kMisuse with one sentence that quotes it.
Result<FaultSpec> parse_fault(std::string_view text);
Result<std::vector<FaultSpec>> parse_faults(std::string_view text);

// The shortest text that parses to the same value.
std::string to_text(const FaultSpec& spec);
std::string to_text(const std::vector<FaultSpec>& specs);

}  // namespace r2ccl
