#pragma once
// What the lanes of one rank need before they start: their connections, how many messages each holds at once, and how
// large those may be. Pure. Execution allocates by it, once.

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/schedule.h"

namespace r2ccl {

// True: the message of a receiving step goes straight to the step's destination.
constexpr bool lands_in_place(const Step& step) {
  return (step.kind == StepKind::kRecv || step.kind == StepKind::kRecvCopySend) &&
         step.destination.buffer != Buffer::kNone;
}

// True: the step sends on what it received straight from the staging buffer.
constexpr bool relays(const Step& step) {
  return step.kind == StepKind::kRecvReduceSend ||
         (step.kind == StepKind::kRecvCopySend && step.destination.buffer == Buffer::kNone);
}

constexpr std::uint64_t connection_key(std::uint64_t peer, std::uint32_t channel) {
  return peer << 32 | channel;
}

struct ConnectionNeed {
  std::uint64_t key = 0;  // connection_key()
  // How many messages are under way at once: the schedule's slots, or all messages if they are fewer. An incoming
  // connection that is relayed from its staging buffers has as many more for every connection by which it leaves;
  // otherwise a relay could wait for a buffer where the schedule has no wait.
  std::uint32_t depth = 0;
  bool shared = false;                // several lanes use it
  std::uint64_t staged_elements = 0;  // the longest message that does not land in place; 0: all do
};

struct Needs {
  std::vector<ConnectionNeed> in;  // by key
  std::vector<ConnectionNeed> out;
  std::vector<std::uint32_t> ahead;    // per lane: how many receives can be posted at once
  std::uint64_t scratch_elements = 0;  // elements of one scratch slot
};

// Upper bounds; cheap if the outer iterations are alike. `count`: elements of the whole vector.
Needs needs_of(const PlanHeader& header, std::span<const Lane> lanes, std::uint64_t count);

}  // namespace r2ccl
