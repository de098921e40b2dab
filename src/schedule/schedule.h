#pragma once
// What every rank does for one collective, as a value: it can be printed (text/text.h), proven (check/check.h), timed
// (sim/cluster) and executed. Every rank makes the same schedule by itself, and may make its own lanes only.
//
// A lane is an ordered list of steps inside two nested loops; the lanes of a rank run side by side. A step names peers,
// data and buffers by indices that are linear in the loop variables, so neither a 64-segment pipeline nor a 1,024-rank
// exchange stores its steps one by one.
//
// What a step means:
//   send                   to <- source
//   recv                   destination <- message
//   copy                   destination <- source
//   reduce                 destination <- destination + source
//   recv_reduce            destination <- message + source
//   recv_copy_send         destination <- message; to <- message       (no destination: a relay)
//   recv_reduce_send       to <- message + source
//   recv_reduce_copy_send  destination <- message + source; to <- the same
// The sum is always written (message + source) or (destination + source), in this order, so results are the same bits
// everywhere.
//
// Order. The steps of a lane start one after another; a receiving step ends when its message is there, a sending step
// hands its data to the transport and goes on. Messages between two ranks on one channel are matched in order. A sender
// is at most `slots` messages of a (from, to, channel) ahead of the receiver: message i can not leave before message i
// - slots was received. A message whose range has no elements is not sent, at either end; steps on empty ranges do
// nothing.
//
// The source of a send is read until its receipt arrives (the receiver has finished the receiving step). So a later
// step, of this or another lane, may overwrite it only after a `wait` for the sending step, or when what it writes
// proves that the message was received, because it was made from it. The checker knows both.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/layout.h"

namespace r2ccl {

enum class Collective : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
};
std::string_view to_text(Collective collective);  // "all_reduce"

// ((base + by_outer * outer + by_inner * inner) mod modulo) * scale + offset; modulo 0: not reduced. mod is never
// negative.
struct Index {
  std::int32_t base = 0;
  std::int32_t by_outer = 0;
  std::int32_t by_inner = 0;
  std::uint32_t modulo = 0;
  std::int32_t scale = 1;
  std::int32_t offset = 0;

  constexpr std::int64_t at(std::uint32_t outer, std::uint32_t inner) const {
    std::int64_t v = std::int64_t{base} + std::int64_t{by_outer} * outer + std::int64_t{by_inner} * inner;
    if (modulo != 0) {
      v %= modulo;
      if (v < 0) v += modulo;
    }
    return v * scale + offset;
  }
  friend constexpr bool operator==(const Index&, const Index&) = default;
};
constexpr Index fixed(std::int64_t value) {
  return {.base = static_cast<std::int32_t>(value)};
}
// outer + offset
constexpr Index outer_plus(std::int32_t offset) {
  return {.base = offset, .by_outer = 1};
}

enum class StepKind : std::uint8_t {
  kSend,
  kRecv,
  kCopy,
  kReduce,
  kRecvReduce,
  kRecvCopySend,
  kRecvReduceSend,
  kRecvReduceCopySend,
};
std::string_view to_text(StepKind kind);
constexpr bool receives(StepKind k) {
  return k != StepKind::kSend && k != StepKind::kCopy && k != StepKind::kReduce;
}
constexpr bool sends(StepKind k) {
  return k == StepKind::kSend || k == StepKind::kRecvCopySend || k == StepKind::kRecvReduceSend ||
         k == StepKind::kRecvReduceCopySend;
}

// kNone as a source of a recv_reduce…: nothing is added. kNone as a destination of recv_copy_send: nothing is stored.
// Scratch is addressed by slot, input and output by the step's span and segment.
enum class Buffer : std::uint8_t { kNone, kInput, kOutput, kScratch };

struct Operand {
  Buffer buffer = Buffer::kNone;
  Index slot{};  // of scratch
  friend bool operator==(const Operand&, const Operand&) = default;
};

// Do not start before `step` of lane `lane` of this rank has ended for outer iteration (mine + outer_offset): all its
// inner iterations, or only inner iteration (mine + inner_offset) when `one_inner`. A send has ended when its receipts
// arrived. An iteration before the first is no wait; one that the step skips is over when the lane has passed it.
struct Wait {
  std::uint32_t lane = 0;
  std::uint32_t step = 0;
  std::int32_t outer_offset = 0;
  bool one_inner = false;
  std::int32_t inner_offset = 0;
  friend bool operator==(const Wait&, const Wait&) = default;
};

// The step runs only where `value` equals `equals`.
struct Guard {
  Index value{};
  std::int64_t equals = 0;
  friend bool operator==(const Guard&, const Guard&) = default;
};

struct Step {
  StepKind kind = StepKind::kSend;
  Index from{};  // rank; of receiving steps
  Index to{};    // rank; of sending steps
  std::uint32_t channel_in = 0;
  std::uint32_t channel_out = 0;
  Index span{};     // number in Layout
  Index segment{};  // in Layout
  Operand source{};
  Operand destination{};
  // In the first iteration of the inner loop in which this step runs, the source is in `first_source` instead (kNone:
  // nothing is added, the message is stored). Only where `has_first`; it is what an accumulation over peers starts
  // from.
  bool has_first = false;
  Buffer first_source = Buffer::kNone;
  // Runs only for outer iterations in [begin, end).
  std::uint32_t outer_begin = 0;
  std::uint32_t outer_end = UINT32_MAX;
  std::vector<Guard> guards{};  // all must hold
  std::vector<Wait> waits{};
  friend bool operator==(const Step&, const Step&) = default;
};

// A lane that is not pinned: its messages go over any NIC, as the transport balances them or PlanHeader::shares says.
inline constexpr std::int32_t kAnyRail = -1;

// for outer in [0, outer): steps[0, inner_begin); for inner in [0, inner): steps[inner_begin, inner_end);
// steps[inner_end, …) A plain list is outer = 1, inner = 1 with all steps inside.
struct Lane {
  std::string name{};  // "rs_out"; for people
  std::uint32_t outer = 1;
  std::uint32_t inner = 1;
  std::uint32_t inner_begin = 0;
  std::uint32_t inner_end = UINT32_MAX;  // clipped to the number of steps
  std::int32_t rail = kAnyRail;
  std::vector<Step> steps{};
  friend bool operator==(const Lane&, const Lane&) = default;
};

// How the traffic of each pair of servers is divided over rails, in 1/4096, the same in both directions. Where it is
// empty the plan leaves the choice to the transport.
inline constexpr std::uint32_t kShareUnit = 4096;
struct RailShares {
  std::uint32_t servers = 0;
  std::uint32_t rails = 0;
  std::vector<std::uint16_t> share;  // [(u * servers + v) * rails + k]; symmetric; each pair sums to kShareUnit

  bool empty() const { return share.empty(); }
  const std::uint16_t* of(std::uint32_t u, std::uint32_t v) const {
    return share.data() + (std::size_t{u} * servers + v) * rails;
  }
  friend bool operator==(const RailShares&, const RailShares&) = default;
};

// The part of a schedule that all ranks have in common.
struct PlanHeader {
  Collective collective = Collective::kAllReduce;
  std::string algorithm;  // the name it was planned under
  std::uint32_t ranks = 1;
  std::uint32_t ranks_per_server = 1;
  std::uint32_t root = 0;
  // For collectives made of blocks (all but all_reduce, broadcast, reduce) block b is pieces [b * w, (b + 1) * w),
  // where w = pieces / ranks.
  Layout layout;
  std::uint32_t slots = 2;
  std::uint32_t scratch_slots = 0;  // of one rank; each holds the largest range that any step puts there
  RailShares shares;
  // Lanes pinned to rail k use NIC nic_of_rail[server * rails + k] of a server instead of NIC k; empty: NIC k.
  std::vector<std::uint8_t> nic_of_rail;
  friend bool operator==(const PlanHeader&, const PlanHeader&) = default;
};

struct Schedule {
  PlanHeader header;
  std::vector<std::vector<Lane>> lanes;  // [rank]
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

}  // namespace r2ccl
