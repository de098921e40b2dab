#pragma once
// What a replay (replay.h) keeps of each lane, of each step that others wait for, and of each port.

#include <cstdint>

#include "schedule/schedule.h"
#include "sim/cluster/flat_lanes.h"

namespace r2ccl::sim {

// All that is needed of a lane while it stays in one outer iteration, in one cache line. It holds the lane's message,
// too, so that nobody has to look at step and connection again while the message waits for its turn.
struct alignas(64) LaneState {
  double time_s = 0;
  // Of the message it waits to hand over.
  double ready_s = 0;
  double bytes = 0;
  std::uint32_t out = kNoIndex;
  std::uint32_t to = 0;
  std::uint32_t at = kNoIndex;  // in FlatLanes::steps; kNoIndex: done
  std::uint32_t end = 0;        // of the phase
  std::uint32_t outer = 0;
  std::uint32_t next_asleep = kNoIndex;
  std::uint32_t rank = 0;
  std::int32_t rail = kAnyRail;
  bool inside = false;      // the message stays in its server
  bool all = true;          // all steps run in this outer iteration
  std::uint32_t times = 0;  // iterations that are over of a step that stands for a whole inner loop
};
static_assert(sizeof(LaneState) == 64);

// What is needed when the lane begins another outer iteration.
struct LaneLoop {
  std::uint32_t outer_count = 0;
  std::uint32_t all_begin = 0;  // in these outer iterations all steps run
  std::uint32_t all_end = UINT32_MAX;
  std::uint32_t first_phase = 0;
  std::uint32_t phases = 1;
};

// The end of an iteration of a step that other lanes wait for.
struct StepEnd {
  double time_s = 0;
  std::uint32_t left = 1;  // iterations that are not over
  std::uint32_t asleep = kNoIndex;
};

// Messages that wait for an outgoing port.
struct PortQueue {
  std::uint32_t first = kNoIndex;  // lanes
  std::uint32_t last = kNoIndex;
  bool in_calendar = false;
};

}  // namespace r2ccl::sim
