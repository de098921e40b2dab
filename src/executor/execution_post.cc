// Receives that are posted before their step runs.
#include "base/assert.h"
#include "executor/execution_impl.h"

namespace r2ccl {

void Execution::Impl::post(LaneRun& lane) {
  while (!lane.ahead->done() && result && post_next(lane)) {
  }
}

// Posts for the next step, if it receives, and passes it. False: that is not possible yet.
bool Execution::Impl::post_next(LaneRun& lane) {
  if (lane.passed - lane.executed >= kStepsAhead || lane.touched.full()) return false;
  const LaneCursor& at = *lane.ahead;
  const Step& step = at.step();
  const bool over = waits_over(at, lane.ahead_waits);
  if (!over && lands_in_place(step)) {
    lane.awaits = true;
    return false;
  }
  ElementRange range{};
  if (receives(step.kind) || lane.lands) range = range_of(at);
  if (receives(step.kind) && !range.empty() && !post_receive(lane, range, over)) return false;
  pass(lane, range, over);
  return true;
}

// Looks at every slot, because relays keep theirs until their receipts, which come in any order.
std::uint32_t Execution::Impl::free_slot(Connection& connection) const {
  for (std::uint32_t i = 0; i < connection.depth; ++i, connection.take_slot()) {
    if (transfers[connection.transfer()].state == State::kFree) return connection.transfer();
  }
  return kNone;
}

bool Execution::Impl::post_receive(LaneRun& lane, ElementRange range, bool waits_over) {
  const LaneCursor& at = *lane.ahead;
  const Step& step = at.step();
  const std::uint32_t number = find(in, connection_key(static_cast<std::uint64_t>(at.from()), step.channel_in));
  Connection& c = in[number];
  if (c.shared && (lane.passed != lane.executed || !waits_over)) {
    lane.awaits = lane.awaits || !waits_over;
    return false;
  }
  const std::uint32_t token = free_slot(c);
  if (token == kNone) {
    c.waiter = lane.number;
    return false;
  }
  const std::size_t bytes = range.size() * size;
  Place to{};
  if (lands_in_place(step)) {
    to = place(at, step.destination.buffer, step.destination.slot, range);
    if (lane.executed < lane.waited_from || lane.touched.overlaps(to.memory, bytes)) return false;
  } else {
    transfers[token].skew = skew_of(token, range);
    to = staging_of(token);
  }
  const Status given = courier.receive(c.peer(), c.channel(), {to.region, to.offset, bytes}, token);
  if (!given) {
    refused(lane, given.error());
    return false;
  }
  R2CCL_ASSERT(lane.posted_count < lane.posted_size, "more receives posted than a lane can have");
  std::uint32_t end = lane.posted_begin + lane.posted_count++;
  if (end >= lane.posted_size) end -= lane.posted_size;
  posted[lane.first_posted + end] = {.step = lane.passed, .range = range, .transfer = token};
  transfers[token].state = State::kUnderWay;
  transfers[token].lane = lane.number;
  c.take_slot();
  moved = true;
  return true;
}

void Execution::Impl::pass(LaneRun& lane, ElementRange range, bool waits_over) {
  LaneCursor& at = *lane.ahead;
  const Step& step = at.step();
  if (!lands_in_place(step)) {
    if (!waits_over) lane.waited_from = lane.passed + 1;
    if (lane.lands && !range.empty()) {
      const auto where = [&](Buffer buffer, const Index& slot) {
        return buffer == Buffer::kNone ? nullptr : place(at, buffer, slot, range).memory;
      };
      lane.touched.add({.source = where(at.source(), step.source.slot),
                        .destination = where(step.destination.buffer, step.destination.slot),
                        .bytes = range.size() * size},
                       lane.passed);
    }
  }
  at.next();
  ++lane.passed;
  lane.ahead_waits = {};
}

}  // namespace r2ccl
