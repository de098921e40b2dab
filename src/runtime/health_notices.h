#pragma once
// What processes tell each other about broken paths, as values and as bytes. Strict: anything short, long or out of
// range is refused. Parsers never throw.

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/id.h"
#include "health/verdict.h"

namespace r2ccl {

inline constexpr std::size_t kVerdictWhyMax = 200;

// "Connect from your NIC `from` to NIC `nic` of process `target` and tell me": the answer repeats the token.
struct ProbeRequest {
  std::uint64_t token = 0;
  NicId from;
  ProcessId target;
  NicId nic;
};

struct ProbeAnswer {
  std::uint64_t token = 0;
  ProbeResult result = ProbeResult::kUnasked;
};

// The time is left out, because the clocks of two processes can not be compared.
Bytes encode_observation(const Observation& seen);
std::optional<Observation> parse_observation(ByteView bytes);

Bytes encode_probe_request(const ProbeRequest& request);
std::optional<ProbeRequest> parse_probe_request(ByteView bytes);

Bytes encode_probe_answer(const ProbeAnswer& answer);
std::optional<ProbeAnswer> parse_probe_answer(ByteView bytes);

Bytes encode_verdict(const Verdict& verdict);
std::optional<Verdict> parse_verdict(ByteView bytes);

}  // namespace r2ccl
