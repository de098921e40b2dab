#pragma once
// What the lanes of one rank need before they start: their connections, how deep each is, and how large what lands there may be.

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/schedule.h"

namespace r2ccl {

// Whether the message of a receiving step goes straight to the step's destination.
constexpr bool lands_in_place(const Step& step) {
  return (step.kind == StepKind::kRecv || step.kind == StepKind::kRecvCopySend) &&
         step.destination.buffer != Buffer::kNone;
}

// Whether a sending step that receives reads the staging buffer for it.
constexpr bool relays(const Step& step) {
  return step.kind == StepKind::kRecvReduceSend ||
         (step.kind == StepKind::kRecvCopySend && step.destination.buffer == Buffer::kNone);
}

constexpr std::uint64_t connection_key(std::uint64_t peer, std::uint32_t channel) {
  return peer << 32 | channel;
}

struct ConnectionNeed {
  std::uint64_t key = 0;  // connection_key()
  // Messages under way at once: the slots, or fewer where there are not so many. Incoming ones that are relayed from their staging
  // buffers have as many more as the connections they leave by: only so a relay never waits for a buffer where the schedule has none.
  std::uint32_t depth = 0;
  bool shared = false;                // several lanes use it
  std::uint64_t staged_elements = 0;  // the most a message has that does not land in place; 0: all do
};

struct Needs {
  std::vector<ConnectionNeed> in;  // by key
  std::vector<ConnectionNeed> out;
  std::vector<std::uint32_t> ahead;    // by lane: receives that can be posted at once
  std::uint64_t scratch_elements = 0;  // of one slot
};

// Upper bounds: cheap where outer iterations are alike. `count` is of the whole vector.
Needs needs_of(const PlanHeader& header, std::span<const Lane> lanes, std::uint64_t count);

}  // namespace r2ccl
