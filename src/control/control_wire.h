#pragma once
// The frames of the control network as values. Strict: a body that is short, too long, beyond a limit or followed by
// anything is refused whole. Parsers never throw and never allocate more than their input could fill.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/id.h"
#include "control/control.h"
#include "topology/nic.h"

namespace r2ccl {

inline constexpr std::uint16_t kControlVersion = 2;

// FrameHeader::type; numbers below 64 belong to sessions.
enum class ControlFrame : std::uint8_t {
  kRegister = 64,   // version u16, expected u32, ProcessInfo
  kRoster = 65,     // total u32, first u32, then each ProcessInfo; one of several parts, in order
  kNotice = 66,     // process u64 (to, or from), kind u8, the rest is the notice
  kGone = 67,       // process u64
  kBack = 68,       // process u64
  kBye = 69,        // empty
  kHeartbeat = 70,  // empty
  kRefuse = 71,     // sentence, length first
  kReach = 72,      // count u8, then the addresses
};

inline constexpr std::size_t kPortsMax = 32;  // ports of a process, and addresses in one REACH
inline constexpr std::size_t kNicNameMax = 64;
inline constexpr std::size_t kHostMax = 255;
inline constexpr std::size_t kRefusalMax = 512;

struct RegisterBody {
  std::uint16_t version = kControlVersion;
  std::uint32_t expected = 0;  // processes of the job; 0: it does not say
  ProcessInfo info;            // empty when the version is not kControlVersion
};

struct RosterPart {
  std::uint32_t total = 0;
  std::uint32_t first = 0;
  std::vector<ProcessInfo> members;
};

struct NoticeBody {
  ProcessId process;
  NoticeKind kind{};
  ByteView bytes;  // points into what was parsed
};

// Names beyond their limit are cut, ports beyond theirs left out.
Bytes encode_register(const ProcessInfo& info, std::uint32_t expected = 0);
std::optional<RegisterBody> parse_register(ByteView body);

// The part of the roster that begins at `first`, as many members as fit into one frame (at least one).
Bytes encode_roster_part(const std::vector<ProcessInfo>& roster, std::size_t first, std::size_t& next);
std::optional<RosterPart> parse_roster_part(ByteView body);

Bytes encode_notice(ProcessId process, NoticeKind kind, ByteView bytes);
std::optional<NoticeBody> parse_notice(ByteView body);

Bytes encode_process(ProcessId process);  // GONE, BACK
std::optional<ProcessId> parse_process(ByteView body);

Bytes encode_refusal(const std::string& sentence);
// Characters that are not printable ASCII come out as '?': the sentence goes into logs.
std::optional<std::string> parse_refusal(ByteView body);

Bytes encode_reach(const std::vector<Address>& addresses);  // those beyond kPortsMax are left out
std::optional<std::vector<Address>> parse_reach(ByteView body);

// Posts a control frame; false when the link can not take it now.
bool post_control(Link& link, ControlFrame type, ByteView body);

}  // namespace r2ccl
