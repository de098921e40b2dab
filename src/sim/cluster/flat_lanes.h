#pragma once
// The lanes of a schedule in the form that replay walks: every index resolved, every connection and every wait a number, nothing
// to allocate or divide per message. Iterations of the outer loop that are alike share their steps, so a 64-segment pipeline of 128
// ranks is some 65 thousand entries and not 4 million.

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"
#include "topology/cluster.h"

namespace r2ccl {

inline constexpr std::uint32_t kNoIndex = UINT32_MAX;

// One step of one iteration. Steps without a message are left out unless they wait or somebody waits for them.
struct FlatStep {
  std::uint32_t in = kNoIndex;   // connection a message comes from
  std::uint32_t out = kNoIndex;  // connection a message goes to
  std::uint32_t span = 0;
  std::uint32_t step = 0;  // number in its lane
  std::uint32_t inner = 0;
  bool waits = false;
};

struct FlatWait {
  std::uint32_t first_end = 0;  // number of the end of the awaited step's iteration (0, 0)
  std::uint32_t outer_count = 1;
  std::uint32_t inner_count = 1;  // 1: one end for all inner iterations
  std::int32_t outer_offset = 0;
  std::int32_t inner_offset = 0;
  bool one_inner = false;

  // kNoIndex: nothing to wait for. Iterations behind the last are over when the last is.
  std::uint32_t end_number(std::uint32_t outer, std::uint32_t inner) const;
};

// What all iterations of a step have in common.
struct FlatStepInfo {
  std::uint32_t outer_begin = 0;
  std::uint32_t outer_end = UINT32_MAX;
  std::uint32_t first_wait = 0;
  std::uint32_t wait_count = 0;
  // Ends that others wait for: of all inner iterations of an outer one together, and of each alone. kNoIndex: nobody waits.
  std::uint32_t ends_of_all = kNoIndex;
  std::uint32_t ends_of_each = kNoIndex;
  Index segment;

  bool awaited() const { return ends_of_all != kNoIndex || ends_of_each != kNoIndex; }
};

struct FlatLane {
  std::uint32_t rank = 0;
  std::uint32_t number = 0;  // in its rank
  std::int32_t rail = kAnyRail;
  std::uint32_t outer = 1;
  std::uint32_t inner = 1;
  std::uint32_t first_info = 0;   // of its steps
  std::uint32_t first_phase = 0;  // outer iteration i runs phase i % phases
  std::uint32_t phases = 1;
};

struct FlatConnection {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
};

struct FlatLanes {
  std::vector<FlatLane> lanes;             // rank by rank
  std::vector<FlatStepInfo> infos;         // by FlatLane::first_info + step
  std::vector<std::uint32_t> phase_begin;  // in `steps`; one more than there are phases
  std::vector<FlatStep> steps;
  std::vector<FlatWait> waits;
  std::vector<std::uint32_t> iterations_of_end;  // how many have to be over until an end is reached
  std::vector<FlatConnection> connections;
  bool sends_awaited = false;
  std::vector<double> bytes_of_span;
};

// Bytes of all messages between servers that are not pinned to a rail, by rank.
struct RankBytes {
  std::vector<double> out;
  std::vector<double> in;
};
RankBytes rank_bytes(const FlatLanes& flat, const Cluster& cluster);

// The ranks of all peers and the numbers of all spans must be in range (the checker proves it); asserted.
FlatLanes flatten(const Schedule& schedule, std::uint64_t bytes);

}  // namespace r2ccl
