// Runs the step that a lane is at.
#include <algorithm>

#include "base/assert.h"
#include "executor/execution_impl.h"

namespace r2ccl {

std::uint32_t Execution::Impl::find(const std::vector<Connection>& connections, std::uint64_t key) {
  const auto found = std::ranges::lower_bound(connections, key, {}, &Connection::key);
  R2CCL_ASSERT(found != connections.end() && found->key == key, "a step uses a connection that was not foreseen");
  return static_cast<std::uint32_t>(found - connections.begin());
}

Execution::Impl::Place Execution::Impl::place(const LaneCursor& at, Buffer buffer, const Index& slot,
                                              ElementRange range) {
  if (buffer == Buffer::kScratch) {
    const std::size_t offset = static_cast<std::size_t>(slot.at(at.outer(), at.inner())) * scratch_stride;
    return {&own, offset, block.memory.get() + offset};
  }
  const bool is_input = buffer == Buffer::kInput;
  const std::size_t offset = (range.begin - (is_input ? buffers.input_first : buffers.output_first)) * size;
  HostRegion& region = is_input ? input : output;
  return {&region, offset, region.host() + offset};
}

Execution::Impl::Place Execution::Impl::staging_of(std::uint32_t transfer) {
  const std::size_t offset = buffer_of(transfer) + transfers[transfer].skew;
  return {&own, offset, block.memory.get() + offset};
}

// Shifts the message so that it lies in its cache lines as the same elements of the input do, here and probably at its
// sender. Memory that is aligned to each other is copied and added fastest.
std::uint32_t Execution::Impl::skew_of(std::uint32_t transfer, ElementRange range) const {
  const auto buffer = reinterpret_cast<std::uintptr_t>(block.memory.get()) + buffer_of(transfer);
  const auto alike = reinterpret_cast<std::uintptr_t>(buffers.input) + (range.begin - buffers.input_first) * size;
  return static_cast<std::uint32_t>((alike - buffer) % kLine);
}

Execution::Impl::Went Execution::Impl::execute(LaneRun& lane) {
  if (!lane.begun && !begin(lane)) return Went::kNowhere;
  if (!lane.range.empty()) {
    if (!work(lane)) return Went::kSome;
    if (sends(lane.at.step().kind) && !send(lane)) return Went::kNowhere;
  }
  end(lane);
  return Went::kToItsEnd;
}

// True: the step may run. Its waits are over, its message is there, and there is a slot for what it sends.
bool Execution::Impl::begin(LaneRun& lane) {
  const Step& step = lane.at.step();
  // If the message lands in place, post_next() has already waited.
  if (!lands_in_place(step) && !waits_over(lane.at, lane.waits)) {
    lane.awaits = true;
    return false;
  }
  if (!find_range(lane)) return false;
  if (sends(step.kind) && !lane.range.empty()) {
    lane.out = find(out, connection_key(static_cast<std::uint64_t>(lane.at.to()), step.channel_out));
    Connection& c = out[lane.out];
    if (transfers[c.transfer()].state != State::kFree) {
      c.waiter = lane.number;
      return false;
    }
  }
  lane.begun = true;
  return true;
}

// Finds the elements that the step is about. False: its message is not there.
bool Execution::Impl::find_range(LaneRun& lane) {
  if (!receives(lane.at.step().kind)) {
    lane.range = range_of(lane.at);
    return true;
  }
  if (lane.passed == lane.executed) return false;
  const Posted* receive = oldest(lane);
  if (receive == nullptr || receive->step != lane.executed) {
    lane.range = {};  // passed without a receive
    return true;
  }
  lane.range = receive->range;
  return transfers[receive->transfer].state == State::kHeld;
}

// Copies or reduces as far as the budget goes. True: all of it is done.
bool Execution::Impl::work(LaneRun& lane) {
  const LaneCursor& at = lane.at;
  const Step& step = at.step();
  std::byte* destination = nullptr;
  const std::byte* first = nullptr;  // copied if there is no second
  const std::byte* second = nullptr;
  const auto source = [&]() -> const std::byte* {
    const Buffer buffer = at.source();
    return buffer == Buffer::kNone ? nullptr : place(at, buffer, step.source.slot, lane.range).memory;
  };
  switch (step.kind) {
    case StepKind::kSend:
    case StepKind::kRecv:
    case StepKind::kRecvCopySend:
      return true;
    case StepKind::kCopy:
      destination = place(at, step.destination.buffer, step.destination.slot, lane.range).memory;
      first = source();
      break;
    case StepKind::kReduce:
      destination = place(at, step.destination.buffer, step.destination.slot, lane.range).memory;
      first = destination;
      second = source();
      break;
    case StepKind::kRecvReduceSend:
      destination = staging_of(oldest(lane)->transfer).memory;
      first = destination;
      second = source();
      break;
    case StepKind::kRecvReduce:
    case StepKind::kRecvReduceCopySend:
      destination = place(at, step.destination.buffer, step.destination.slot, lane.range).memory;
      first = staging_of(oldest(lane)->transfer).memory;
      second = source();
      break;
  }
  if (second == nullptr && first == destination) return true;
  const std::uint64_t left = lane.range.size() - lane.worked;
  const std::uint64_t now = std::min<std::uint64_t>(left, std::max<std::size_t>(budget / size, 1));
  const std::size_t offset = lane.worked * size;
  if (now > 0 && second == nullptr) device.copy(destination + offset, first + offset, now * size);
  if (now > 0 && second != nullptr) {
    device.reduce(destination + offset, first + offset, second + offset, now, type, kind);
  }
  budget -= std::min(budget, now * size);
  lane.worked += now;
  return now == left;
}

// Sends the step's message. False: the courier did not take it.
bool Execution::Impl::send(LaneRun& lane) {
  const LaneCursor& at = lane.at;
  const Step& step = at.step();
  Connection& c = out[lane.out];
  const std::uint32_t token = c.transfer();
  Transfer& t = transfers[token];
  const Operand& operand = step.kind == StepKind::kSend ? step.source : step.destination;
  const Buffer buffer = step.kind == StepKind::kSend ? at.source() : operand.buffer;
  t.relayed = relays(step) ? oldest(lane)->transfer : kNone;
  const Place from = relays(step) ? staging_of(t.relayed) : place(at, buffer, operand.slot, lane.range);
  const Status given =
      courier.send(c.peer(), c.channel(), lane.nic, {from.region, from.offset, lane.range.size() * size}, token);
  if (!given) {
    refused(lane, given.error());
    return false;
  }
  t.state = State::kUnderWay;
  t.lane = lane.number;
  t.receipts = receipts_of[lane.first_step + at.step_number()];
  if (t.receipts != kNone) t.receipt = receipts[t.receipts].add({.outer = at.outer(), .inner = at.inner()});
  c.take_slot();
  ++sends_open;
  return true;
}

void Execution::Impl::end(LaneRun& lane) {
  const Step& step = lane.at.step();
  if (receives(step.kind) && !lane.range.empty()) {
    const std::uint32_t transfer = oldest(lane)->transfer;
    lane.posted_begin = lane.posted_begin + 1 == lane.posted_size ? 0 : lane.posted_begin + 1;
    --lane.posted_count;
    if (!relays(step)) free_receive(transfer);
  }
  lane.at.next();
  ++lane.executed;
  lane.touched.forget_before(lane.executed);
  lane.waits = {};
  lane.begun = false;
  lane.worked = 0;
  wake_dependents(lane);
}

}  // namespace r2ccl
