#pragma once
// The lanes of a schedule in the form that replay.h walks. Every index is resolved and every connection and wait is a
// number, so that nothing is allocated or divided per message. Iterations of the outer loop that are alike share their
// steps, so a 64-segment pipeline of 128 ranks is some 65 thousand entries and not 4 million.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "schedule/schedule.h"
#include "topology/cluster.h"

namespace r2ccl::sim {

inline constexpr std::uint32_t kNoIndex = UINT32_MAX;

// One step of one iteration, or of all iterations of the inner loop. Steps without a message are left out unless they
// wait or somebody waits for them.
struct FlatStep {
  std::uint32_t in = kNoIndex;   // connection a message comes from
  std::uint32_t out = kNoIndex;  // connection a message goes to
  std::uint32_t to = 0;          // rank it goes to
  std::uint32_t span = 0;
  std::uint32_t info = 0;  // in FlatLanes::infos
  std::uint32_t inner : 26 = 0;
  bool whole_loop : 1 = false;   // it stands for all FlatStepInfo::inner iterations of the inner loop, which are alike
  bool from_inside : 1 = false;  // the message comes from a rank of this server
  bool to_inside : 1 = false;    // it goes to one
  bool receipt_awaited : 1 = false;  // somebody waits for receipts of messages of `in`
  bool waits : 1 = false;
  bool awaited : 1 = false;
};
static_assert(sizeof(FlatStep) == 24);

struct FlatWait {
  std::uint32_t info = 0;       // of the awaited step
  std::uint32_t first_end = 0;  // of its iteration (0, 0)
  std::uint32_t outer_count = 1;
  std::uint32_t inner_count = 1;  // ends of one outer iteration
  std::int32_t outer_offset = 0;
  std::int32_t inner_offset = 0;
  bool one_inner = false;

  // The first of ends() numbers. kNoIndex: nothing to wait for. Iterations behind the last are over when the last is.
  std::uint32_t end_number(std::uint32_t outer, std::uint32_t inner) const {
    const std::int64_t o = std::int64_t{outer} + outer_offset;
    const std::int64_t i = one_inner ? std::int64_t{inner} + inner_offset : 0;
    if (o < 0 || i < 0) return kNoIndex;
    const auto last_outer = std::min(static_cast<std::uint32_t>(o), outer_count - 1);
    return first_end + last_outer * inner_count + std::min(static_cast<std::uint32_t>(i), inner_count - 1);
  }
  std::uint32_t ends() const { return one_inner ? 1 : inner_count; }
};

// What all iterations of a step have in common.
struct FlatStepInfo {
  std::uint32_t outer_begin = 0;
  std::uint32_t outer_end = UINT32_MAX;
  std::uint32_t inner = 1;  // iterations of the inner loop
  std::uint32_t first_wait = 0;
  std::uint32_t wait_count = 0;
  // Ends that others wait for: one for all inner iterations of an outer one or, where somebody waits for a single one,
  // one for each.
  std::uint32_t first_end = kNoIndex;
  std::uint32_t ends_per_outer = 0;      // 0: nobody waits
  std::uint32_t iterations_per_end = 0;  // how many have to be over until an end is reached
  // The outer iterations that anybody can wait for lie in [awaited_begin, awaited_end).
  std::uint32_t awaited_begin = UINT32_MAX;
  std::uint32_t awaited_end = 0;
};

struct FlatLane {
  std::uint32_t rank = 0;
  std::uint32_t number = 0;  // in its rank
  std::int32_t rail = kAnyRail;
  std::uint32_t outer = 1;        // 0: it has no steps
  std::uint32_t first_info = 0;   // of its steps
  std::uint32_t first_phase = 0;  // outer iteration i runs phase i % phases
  std::uint32_t phases = 1;
};

struct FlatConnection {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  bool awaited = false;  // somebody waits for receipts of its messages
};

struct FlatLanes {
  std::vector<FlatLane> lanes;             // rank by rank
  std::vector<FlatStepInfo> infos;         // by FlatLane::first_info + step
  std::vector<Index> segments;             // by the same; for people
  std::vector<std::uint32_t> phase_begin;  // in `steps`; one more than there are phases
  std::vector<FlatStep> steps;
  std::vector<FlatWait> waits;
  std::uint32_t end_count = 0;
  std::vector<FlatConnection> connections;  // in the order in which their senders use them
  std::vector<double> bytes_of_span;
};

// The ranks of all peers and the numbers of all spans must be in range (the checker proves it); asserted.
FlatLanes flatten(const Schedule& schedule, std::uint64_t bytes);

// The same lanes for data of other sizes; much cheaper than flattening again. False, and nothing is changed, if other
// ranges than before have no bytes: then other steps are left out.
bool resize(FlatLanes& flat, const Layout& layout, std::uint64_t bytes);

// Gives the lanes `more` outer iterations (or fewer, if negative), inserted or left out after iteration `at`. Steps
// that are bounded to later iterations move along. Ends are numbered anew.
void stretch(FlatLanes& flat, std::uint32_t at, std::int64_t more);

// What all lanes send together.
struct LaneTraffic {
  std::uint64_t messages = 0;  // between servers
  std::uint64_t intra_messages = 0;
  double smallest_message = 0;  // bytes, between servers; 0 if none
  // Bytes between servers, by rank, and of these what is not pinned to a rail.
  std::vector<double> out, in;
  std::vector<double> free_out, free_in;
};
LaneTraffic traffic_of(const FlatLanes& flat, const Cluster& cluster);

}  // namespace r2ccl::sim
