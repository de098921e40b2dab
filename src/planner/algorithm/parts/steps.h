#pragma once
// Short ways to write steps. What is not named here is set on the result.

#include <utility>

#include "schedule/schedule.h"

namespace r2ccl {

// Where the data of a step lies in the layout.
struct Where {
  Index span;
  Index segment;
};

inline Operand in(Buffer buffer) {
  return {buffer, {}};
}

inline Step send(Index to, const Where& where, Buffer source, std::uint32_t channel = 0) {
  Step step{.kind = StepKind::kSend, .to = to, .channel_out = channel, .span = where.span, .segment = where.segment};
  step.source = in(source);
  return step;
}

inline Step recv(Index from, const Where& where, Buffer destination, std::uint32_t channel = 0) {
  Step step{.kind = StepKind::kRecv, .from = from, .channel_in = channel, .span = where.span, .segment = where.segment};
  step.destination = in(destination);
  return step;
}

inline Step recv_reduce(Index from, const Where& where, Buffer source, Buffer destination, std::uint32_t channel = 0) {
  Step step = recv(from, where, destination, channel);
  step.kind = StepKind::kRecvReduce;
  step.source = in(source);
  return step;
}

// destination <- message + (what is there; `first` in the first inner iteration that runs)
inline Step accumulate(Index from, const Where& where, Buffer first, Buffer destination, std::uint32_t channel = 0) {
  Step step = recv_reduce(from, where, destination, destination, channel);
  step.has_first = true;
  step.first_source = first;
  return step;
}

inline Step copy(const Where& where, Buffer source, Buffer destination) {
  Step step{.kind = StepKind::kCopy, .span = where.span, .segment = where.segment};
  step.source = in(source);
  step.destination = in(destination);
  return step;
}

// The fused kinds: a receiving step that also sends on. `channel` both ways.
inline Step and_send(Step step, Index to, std::uint32_t channel = 0) {
  switch (step.kind) {
    case StepKind::kRecv:
      step.kind = StepKind::kRecvCopySend;
      break;
    case StepKind::kRecvReduce:
      step.kind = step.destination.buffer == Buffer::kNone ? StepKind::kRecvReduceSend : StepKind::kRecvReduceCopySend;
      break;
    default:
      break;
  }
  step.to = to;
  step.channel_out = channel;
  return step;
}

// Runs only for outer iterations in [begin, end).
inline Step during(std::uint32_t begin, std::uint32_t end, Step step) {
  step.outer_begin = begin;
  step.outer_end = end;
  return step;
}

inline Step after(Wait wait, Step step) {
  step.waits.push_back(wait);
  return step;
}

// (base ± inner) mod count
inline Index rotate(std::int64_t base, std::int32_t by_inner, std::uint32_t count) {
  return {.base = static_cast<std::int32_t>(base), .by_inner = by_inner, .modulo = count};
}
inline Index inner_index() {
  return {.by_inner = 1};
}

}  // namespace r2ccl
