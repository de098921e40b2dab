// Waits between the lanes of a rank, and what a lane knows to have happened.
#include <algorithm>

#include "schedule/check/check_run.h"

namespace r2ccl {

CheckRun::Outcome CheckRun::await(LaneState& lane) {
  const Step& step = lane.cursor.step();
  while (lane.now.waits_done < step.waits.size()) {
    std::uint64_t& waited = lane.waited[lane.first_wait[lane.cursor.step_number()] + lane.now.waits_done];
    const Outcome outcome = await_one(lane, step.waits[lane.now.waits_done], waited);
    if (outcome != Outcome::kRan) return outcome;
    lane.now.receipts_from = 0;
    ++lane.now.waits_done;
  }
  return Outcome::kRan;
}

CheckRun::Outcome CheckRun::await_one(LaneState& lane, const Wait& wait, std::uint64_t& waited) {
  const std::int64_t signed_outer = std::int64_t{lane.cursor.outer()} + wait.outer_offset;
  if (signed_outer < 0) return Outcome::kRan;
  const auto outer = static_cast<std::uint64_t>(signed_outer);
  if (!wait.one_inner && waited == outer + 1) return Outcome::kRan;  // an earlier inner iteration waited for the same
  LaneState& target = lane_of(lane.rank, wait.lane);
  const LoopShape& shape = target.shape;
  // [begin, end) holds the positions waited for; it is empty where the iteration does not exist.
  std::uint64_t begin = UINT64_MAX;
  std::uint64_t end = UINT64_MAX;
  if (outer < shape.outer_count) {
    const std::uint64_t loop_end =
        outer * shape.per_outer + shape.begin + std::uint64_t{shape.inner_count} * (shape.end - shape.begin);
    std::int64_t first = 0;
    std::int64_t last = shape.inside(wait.step) ? std::int64_t{shape.inner_count} - 1 : 0;
    if (wait.one_inner && shape.inside(wait.step)) {
      first = std::int64_t{lane.cursor.inner()} + wait.inner_offset;
      if (first < 0) return Outcome::kRan;
      last = first < shape.inner_count ? first : -1;
    }
    begin = last < 0 ? loop_end : shape.position(wait.step, outer, static_cast<std::uint64_t>(first));
    end = last < 0 ? loop_end : shape.position(wait.step, outer, static_cast<std::uint64_t>(last)) + 1;
  }
  if (!target.cursor.done() && target.here < end) {
    lane.blocked = Blocked::kPassing;
    lane.blocked_lane = id_of(target);
    lane.blocked_position = end;
    target.waiters.push_back(id_of(lane));
    return Outcome::kBlocked;
  }
  if (sends(target.lane->steps[wait.step].kind) && begin < end) {
    const Outcome outcome = await_receipts(lane, target, wait, begin, end);
    if (outcome != Outcome::kRan) return outcome;
  }
  const auto events =
      std::lower_bound(target.positions.begin(), target.positions.end(), end) - target.positions.begin();
  learn(lane, target, static_cast<std::uint32_t>(events));
  waited = outer + 1;
  return Outcome::kRan;
}

CheckRun::Outcome CheckRun::await_receipts(LaneState& lane, LaneState& target, const Wait& wait, std::uint64_t begin,
                                           std::uint64_t end) {
  const LoopShape& shape = target.shape;
  const std::uint64_t stride = shape.inside(wait.step) ? shape.end - shape.begin : 1;
  const auto first =
      std::lower_bound(target.positions.begin(), target.positions.end(), begin) - target.positions.begin();
  const auto events_from = static_cast<std::uint32_t>(first);
  for (std::uint32_t e = std::max(events_from, lane.now.receipts_from); e < target.events(); ++e) {
    if (target.positions[e] >= end) break;
    if ((target.positions[e] - begin) % stride != 0) continue;
    if (target.received[e] == 0) {
      lane.now.receipts_from = e;
      lane.blocked = Blocked::kReceipt;
      lane.blocked_lane = id_of(target);
      lane.blocked_event = e;
      target.waiters.push_back(id_of(lane));
      return Outcome::kBlocked;
    }
    note_receipt(target, e, lane);
  }
  return Outcome::kRan;
}

void CheckRun::note_receipt(LaneState& target, std::uint32_t event, const LaneState& waiter) {
  for (std::uint32_t r = target.receipts[event]; r != kNone; r = receipts_[r].next) {
    if (receipts_[r].lane == waiter.number) return;
  }
  receipts_.push_back({.next = target.receipts[event], .lane = waiter.number, .event = waiter.events()});
  target.receipts[event] = static_cast<std::uint32_t>(receipts_.size()) - 1;
}

bool CheckRun::receipt_known(const Knowledge& known, std::uint32_t rank, std::uint32_t sender,
                             std::uint32_t event) const {
  const LaneState& target = lane_of(rank, sender);
  if (target.receipts.empty()) return false;
  for (std::uint32_t r = target.receipts[event]; r != kNone; r = receipts_[r].next) {
    if (known.has(receipts_[r].lane, receipts_[r].event)) return true;
  }
  return false;
}

CheckRun::Knowledge CheckRun::knowledge_at(const LaneState& lane, std::uint32_t event) const {
  const std::size_t stride = lane.seen.size() + 1;
  std::size_t low = 0;
  std::size_t high = lane.snapshots.size() / stride;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (lane.snapshots[middle * stride] <= event) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return {lane.number, event, low == 0 ? nullptr : lane.snapshots.data() + (low - 1) * stride + 1};
}

void CheckRun::learn(LaneState& lane, const LaneState& target, std::uint32_t events) {
  if (events == 0 || target.number == lane.number) return;
  bool grew = lane.seen[target.number] < events;
  lane.seen[target.number] = std::max(lane.seen[target.number], events);
  if (const std::uint32_t* known = knowledge_at(target, events - 1).seen; known != nullptr) {
    for (std::size_t i = 0; i < lane.seen.size(); ++i) {
      grew = grew || lane.seen[i] < known[i];
      lane.seen[i] = std::max(lane.seen[i], known[i]);
    }
  }
  if (!grew || !lane.keeps_snapshots) return;
  const std::size_t stride = lane.seen.size() + 1;
  const std::size_t count = lane.snapshots.size();
  if (count == 0 || lane.snapshots[count - stride] != lane.events()) {
    lane.snapshots.push_back(lane.events());
    lane.snapshots.insert(lane.snapshots.end(), lane.seen.begin(), lane.seen.end());
  } else {
    std::ranges::copy(lane.seen, lane.snapshots.end() - static_cast<std::ptrdiff_t>(lane.seen.size()));
  }
}

void CheckRun::notify_progress(LaneState& lane) {
  std::erase_if(lane.waiters, [&](std::uint32_t waiter) {
    const LaneState& w = lanes_[waiter];
    if (w.blocked != Blocked::kPassing || (!lane.cursor.done() && lane.here < w.blocked_position)) return false;
    wake(waiter);
    return true;
  });
}

void CheckRun::notify_receipt(LaneState& lane, std::uint32_t event) {
  std::erase_if(lane.waiters, [&](std::uint32_t waiter) {
    const LaneState& w = lanes_[waiter];
    if (w.blocked != Blocked::kReceipt || w.blocked_event != event) return false;
    wake(waiter);
    return true;
  });
}

}  // namespace r2ccl
