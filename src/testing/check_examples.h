#pragma once
// Small schedules that are right, written by hand, for tests of the checker, the text format and the executor.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "schedule/schedule.h"

namespace r2ccl::example {

inline constexpr Operand kInput{.buffer = Buffer::kInput};
inline constexpr Operand kOutput{.buffer = Buffer::kOutput};

inline Schedule empty(Collective collective, std::uint32_t ranks, Layout layout) {
  Schedule s;
  s.header.collective = collective;
  s.header.ranks = ranks;
  s.header.layout = std::move(layout);
  s.lanes.resize(ranks);
  return s;
}

// Explicit steps, once per segment.
inline Schedule ring(std::uint32_t ranks, std::uint32_t segments) {
  Schedule s = empty(Collective::kAllReduce, ranks, Layout::equal(ranks, segments));
  for (std::uint32_t me = 0; me < ranks; ++me) {
    Lane lane{.name = "ring", .outer = segments};
    const auto step = [&](StepKind kind, std::uint32_t back) {
      Step x{.kind = kind, .span = fixed((me + 2 * ranks - back) % ranks), .segment = outer_plus(0)};
      x.from = fixed((me + ranks - 1) % ranks);
      x.to = fixed((me + 1) % ranks);
      if (kind == StepKind::kSend || kind == StepKind::kRecvReduceSend || kind == StepKind::kRecvReduceCopySend)
        x.source = kInput;
      if (kind != StepKind::kSend && kind != StepKind::kRecvReduceSend) x.destination = kOutput;
      lane.steps.push_back(x);
    };
    step(StepKind::kSend, 0);
    for (std::uint32_t t = 1; t + 1 < ranks; ++t) step(StepKind::kRecvReduceSend, t);
    step(StepKind::kRecvReduceCopySend, ranks - 1);
    for (std::uint32_t t = 0; t + 2 < ranks; ++t) step(StepKind::kRecvCopySend, t);
    step(StepKind::kRecv, ranks - 2);
    lane.inner_begin = static_cast<std::uint32_t>(lane.steps.size());  // no inner loop
    s.lanes[me] = {lane};
  }
  return s;
}

// (me + sign * (1 + inner)) mod ranks
inline Index peer(std::uint32_t me, std::int32_t sign, std::uint32_t ranks) {
  return {.base = static_cast<std::int32_t>(me) + sign, .by_inner = sign, .modulo = ranks};
}

// Weighted direct: everybody sends piece i to its owner i, which adds and sends back, `lag` segments later.
inline Schedule direct(std::uint32_t ranks, std::uint32_t segments, std::uint32_t lag,
                       const std::vector<double>& weights) {
  Layout layout{.bounds = piece_bounds(weights), .segments = segments};
  Schedule s = empty(Collective::kAllReduce, ranks, layout);
  const auto back = -static_cast<std::int32_t>(lag);
  for (std::uint32_t me = 0; me < ranks; ++me) {
    Lane out{.name = "out", .outer = segments + lag, .inner = ranks - 1};
    Step rs{.kind = StepKind::kSend,
            .to = peer(me, 1, ranks),
            .span = peer(me, 1, ranks),
            .segment = outer_plus(0),
            .source = kInput};
    rs.outer_end = segments;
    Step ag{.kind = StepKind::kSend,
            .to = peer(me, 1, ranks),
            .channel_out = 1,
            .span = fixed(me),
            .segment = outer_plus(back)};
    ag.source = kOutput;
    ag.outer_begin = lag;
    ag.waits = {{.lane = 1, .step = 0, .outer_offset = back}};
    out.steps = {rs, ag};
    Lane in{.name = "in", .outer = segments + lag, .inner = ranks - 1};
    Step add{.kind = StepKind::kRecvReduce, .from = peer(me, -1, ranks), .span = fixed(me), .segment = outer_plus(0)};
    add.source = kOutput;
    add.destination = kOutput;
    add.has_first = true;
    add.first_source = Buffer::kInput;
    add.outer_end = segments;
    Step get{.kind = StepKind::kRecv, .from = peer(me, -1, ranks), .channel_in = 1, .span = peer(me, -1, ranks)};
    get.segment = outer_plus(back);
    get.destination = kOutput;
    get.outer_begin = lag;
    in.steps = {add, get};
    s.lanes[me] = {out, in};
  }
  return s;
}

// Reduce to rank 0 and back. Others send from a scratch slot that they use again two segments later; rank 0 keeps its
// sum in scratch too.
inline Schedule star(std::uint32_t ranks, std::uint32_t segments) {
  Schedule s = empty(Collective::kAllReduce, ranks, Layout::equal(2, segments));
  s.header.layout.spans = {{0, 2}};
  s.header.scratch_slots = 2;
  const Operand slot{.buffer = Buffer::kScratch, .slot = {.by_outer = 1, .modulo = 2}};
  const Index all = fixed(2);
  const auto loop = [&](const char* name, std::vector<Step> steps) {
    for (Step& x : steps) x.segment = outer_plus(0);
    return Lane{.name = name,
                .outer = segments,
                .inner_begin = static_cast<std::uint32_t>(steps.size()),
                .steps = std::move(steps)};
  };
  for (std::uint32_t me = 1; me < ranks; ++me) {
    Step copy{.kind = StepKind::kCopy, .span = all, .source = kInput, .destination = slot};
    copy.waits = {{.lane = 0, .step = 1, .outer_offset = -2}};
    const Step send{.kind = StepKind::kSend, .to = fixed(0), .span = all, .source = slot};
    const Step get{.kind = StepKind::kRecv, .from = fixed(0), .span = all, .destination = kOutput};
    s.lanes[me] = {loop("up", {copy, send}), loop("down", {get})};
  }
  Lane add = loop("add", {{.kind = StepKind::kCopy, .span = all, .source = kInput, .destination = slot},
                          {.kind = StepKind::kRecvReduce,
                           .from = {.base = 1, .by_inner = 1},
                           .span = all,
                           .source = slot,
                           .destination = slot},
                          {.kind = StepKind::kCopy, .span = all, .source = slot, .destination = kOutput}});
  add.inner = ranks - 1;
  add.inner_begin = 1;
  add.inner_end = 2;
  add.steps[0].waits = {{.lane = 1, .step = 0, .outer_offset = -2}};
  Lane send = loop("send", {{.kind = StepKind::kSend, .to = {.base = 1, .by_inner = 1}, .span = all, .source = slot}});
  send.inner = ranks - 1;
  send.inner_begin = 0;
  send.steps[0].waits = {{.lane = 0, .step = 1, .outer_offset = 0}};
  s.lanes[0] = {add, send};
  return s;
}

// Everybody's own block to everybody, or for all_to_all the block of each.
inline Schedule blocks(Collective collective, std::uint32_t ranks, std::uint32_t segments) {
  Layout layout = Layout::equal(ranks, segments);
  layout.order = Layout::Order::kSegmentsInside;
  Schedule s = empty(collective, ranks, layout);
  const bool all_to_all = collective == Collective::kAllToAll;
  for (std::uint32_t me = 0; me < ranks; ++me) {
    Lane out{.name = "out", .outer = segments, .inner = ranks - 1, .inner_begin = 1};
    out.steps = {{.kind = StepKind::kCopy,
                  .span = fixed(me),
                  .segment = outer_plus(0),
                  .source = kInput,
                  .destination = kOutput},
                 {.kind = StepKind::kSend,
                  .to = peer(me, 1, ranks),
                  .span = all_to_all ? peer(me, 1, ranks) : fixed(me),
                  .segment = outer_plus(0),
                  .source = kInput}};
    Lane in{.name = "in", .outer = segments, .inner = ranks - 1};
    in.steps = {{.kind = StepKind::kRecv,
                 .from = peer(me, -1, ranks),
                 .span = peer(me, -1, ranks),
                 .segment = outer_plus(0),
                 .destination = kOutput}};
    s.lanes[me] = {out, in};
  }
  return s;
}

inline Schedule reduce_scatter(std::uint32_t ranks, std::uint32_t segments) {
  Layout layout = Layout::equal(ranks, segments);
  layout.order = Layout::Order::kSegmentsInside;
  Schedule s = empty(Collective::kReduceScatter, ranks, layout);
  for (std::uint32_t me = 0; me < ranks; ++me) {
    Lane out{.name = "out", .outer = segments, .inner = ranks - 1};
    out.steps = {{.kind = StepKind::kSend,
                  .to = peer(me, 1, ranks),
                  .span = peer(me, 1, ranks),
                  .segment = outer_plus(0),
                  .source = kInput}};
    Lane in{.name = "in", .outer = segments, .inner = ranks - 1};
    in.steps = {{.kind = StepKind::kRecvReduce,
                 .from = peer(me, -1, ranks),
                 .span = fixed(me),
                 .segment = outer_plus(0),
                 .source = kOutput,
                 .destination = kOutput,
                 .has_first = true,
                 .first_source = Buffer::kInput}};
    s.lanes[me] = {out, in};
  }
  return s;
}

// broadcast or reduce along 0, 1, 2, …; the root is at the right end of it.
inline Schedule chain(Collective collective, std::uint32_t ranks, std::uint32_t segments) {
  Schedule s = empty(collective, ranks, Layout::equal(1, segments));
  const bool reduces = collective == Collective::kReduce;
  s.header.root = reduces ? ranks - 1 : 0;
  for (std::uint32_t me = 0; me < ranks; ++me) {
    Step x{.from = fixed(std::int64_t{me} - 1), .to = fixed(me + 1), .span = fixed(0), .segment = outer_plus(0)};
    const bool last = me + 1 == ranks;
    x.kind = me == 0 ? StepKind::kSend
                     : (reduces ? (last ? StepKind::kRecvReduce : StepKind::kRecvReduceSend)
                                : (last ? StepKind::kRecv : StepKind::kRecvCopySend));
    if (me == 0 || reduces) x.source = kInput;
    if (me > 0 && (!reduces || last)) x.destination = kOutput;
    Lane lane{.name = "chain", .outer = segments, .steps = {x}};
    if (me == 0 && !reduces) {
      Step copy{.kind = StepKind::kCopy,
                .span = fixed(0),
                .segment = outer_plus(0),
                .source = kInput,
                .destination = kOutput};
      lane.steps.push_back(copy);
    }
    s.lanes[me] = {lane};
  }
  return s;
}

// gather to, or scatter from, rank 0.
inline Schedule fan(Collective collective, std::uint32_t ranks) {
  Schedule s = empty(collective, ranks, Layout::equal(ranks));
  const bool gathers = collective == Collective::kGather;
  const Index other{.base = 1, .by_inner = 1};
  const Step copy{.kind = StepKind::kCopy, .span = fixed(0), .source = kInput, .destination = kOutput};
  Step at_root{.kind = StepKind::kRecv, .from = other, .span = other, .destination = kOutput};
  if (!gathers) at_root = {.kind = StepKind::kSend, .to = other, .span = other, .source = kInput};
  s.lanes[0] = {{.name = "root", .inner = ranks - 1, .inner_begin = 1, .steps = {copy, at_root}}};
  for (std::uint32_t me = 1; me < ranks; ++me) {
    Step leaf{.kind = StepKind::kSend, .to = fixed(0), .span = fixed(me), .source = kInput};
    if (!gathers) leaf = {.kind = StepKind::kRecv, .from = fixed(0), .span = fixed(me), .destination = kOutput};
    s.lanes[me] = {{.name = "leaf", .steps = {leaf}}};
  }
  return s;
}

// One schedule of each kind, all small.
inline std::vector<Schedule> all() {
  return {ring(2, 1),
          ring(3, 2),
          ring(4, 3),
          direct(2, 2, 2, {1, 1}),
          direct(3, 3, 2, {1, 2, 3}),
          direct(4, 2, 1, {1, 0, 2, 3}),
          star(3, 5),
          star(4, 3),
          blocks(Collective::kAllGather, 3, 2),
          blocks(Collective::kAllToAll, 4, 2),
          reduce_scatter(3, 2),
          chain(Collective::kBroadcast, 4, 3),
          chain(Collective::kReduce, 4, 3),
          fan(Collective::kGather, 4),
          fan(Collective::kScatter, 4)};
}

}  // namespace r2ccl::example
