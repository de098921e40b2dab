#include "sim/net/sim_world.h"

#include <algorithm>

namespace r2ccl::sim {

SimWorld::SimWorld(std::uint64_t seed, const Scheduling& scheduling) : scheduling_(scheduling), random_(seed) {
  now_ = Instant(1s);  // Not zero: code that takes a default Instant for "never happened" must not be right by luck.
}

void SimWorld::at(Instant when, EventTarget& target, std::uint32_t kind, std::uint32_t argument) {
  queue_.push({std::max(when, now_), next_order_++, &target, kind, argument});
}

ProcessIndex SimWorld::add(Stepped& process) {
  slots_.push_back({.process = &process});
  const auto index = static_cast<ProcessIndex>(slots_.size() - 1);
  schedule_step(index, now_);
  return index;
}

void SimWorld::wake(ProcessIndex index) {
  schedule_step(index, now_ + random_.between(scheduling_.delay_min, scheduling_.delay_max));
}

void SimWorld::pause(ProcessIndex index, Instant until) {
  Slot& slot = slots_[index];
  slot.paused_until = std::max(slot.paused_until, until);
  if (slot.scheduled < slot.paused_until) {
    slot.scheduled = kNever;
    schedule_step(index, slot.paused_until);
  }
}

void SimWorld::kill(ProcessIndex index) {
  slots_[index].alive = false;
}

void SimWorld::schedule_step(ProcessIndex index, Instant when) {
  Slot& slot = slots_[index];
  if (!slot.alive || when == kNever) return;
  when = std::max(when, slot.paused_until);
  if (when >= slot.scheduled) return;
  slot.scheduled = when;
  at(when, *this, 0, index);
}

void SimWorld::on_event(std::uint32_t, std::uint32_t index) {
  if (!slots_[index].alive || slots_[index].scheduled != now_) return;
  slots_[index].scheduled = kNever;
  const Turn turn = slots_[index].process->step(now_);
  const Instant soonest = now_ + scheduling_.step_cost;
  Slot& slot = slots_[index];
  const bool asks_in_vain = !turn.moved && turn.next <= soonest;
  if (slot.idle_steps < kIdleStepsMax) slot.idle_steps = asks_in_vain ? slot.idle_steps + 1 : 0;
  schedule_step(index, turn.moved ? soonest : std::max(turn.next, soonest));
}

bool SimWorld::run_until(Instant until) {
  stopped_ = false;
  while (!queue_.empty() && queue_.top().when <= until && !exhausted()) {
    const Pending event = queue_.top();
    queue_.pop();
    now_ = event.when;
    ++events_handled_;
    digest_.add(static_cast<std::uint64_t>(now_.time_since_epoch().count()));
    digest_.add(std::uint64_t{event.target->trace_id_} << 40 | std::uint64_t{event.kind} << 32 | event.argument);
    event.target->on_event(event.kind, event.argument);
    if (stopped_) return false;
  }
  now_ = std::max(now_, until);
  return true;
}

}  // namespace r2ccl::sim
