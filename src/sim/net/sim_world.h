#pragma once
// Simulated time: a queue of events and the processes that run on it. Nothing ticks; time jumps from event to event.
//
// Order      Events at the same time happen in the order they were scheduled, so a run depends on its seed alone.
// Processes  A process is stepped when something became ready for it (after a scheduling delay) and when the Turn that
//            it answered last says so, but never while it is paused or dead. Its kernel goes on meanwhile
//            (wires/sim_connection.h).
// Ownership  Targets and processes are borrowed and must outlive the world's last run_until().

#include <queue>
#include <vector>

#include "base/time.h"
#include "env/env.h"
#include "sim/net/sim_random.h"

namespace r2ccl::sim {

class EventTarget {
 public:
  virtual ~EventTarget() = default;
  virtual void on_event(std::uint32_t kind, std::uint32_t argument) = 0;

 private:
  friend class SimWorld;
  std::uint32_t trace_id_ = 0;
};

class Stepped {
 public:
  virtual ~Stepped() = default;
  virtual Turn step(Instant now) = 0;
};

struct Scheduling {
  Duration delay_min = 1us;  // from readiness to step()
  Duration delay_max = 20us;
  Duration step_cost = 1us;  // time a step takes; a process that moved is stepped again right after
};

using ProcessIndex = std::uint32_t;

class SimWorld final : public Clock, private EventTarget {
 public:
  SimWorld(std::uint64_t seed, const Scheduling& scheduling);

  Instant now() override { return now_; }
  SimRandom& random() { return random_; }
  std::uint64_t digest() const { return digest_.value(); }
  void trace(std::uint64_t value) { digest_.add(value); }
  std::uint64_t events_handled() const { return events_handled_; }
  // run_until() ends for good after that many events: a run that goes in circles must not go for ever.
  void limit_events(std::uint64_t most) { events_max_ = most; }
  bool exhausted() const { return events_handled_ >= events_max_; }

  // Gives the target a name in the trace; the order of enrolment is part of the run.
  void enrol(EventTarget& target) { target.trace_id_ = next_trace_id_++; }
  void at(Instant when, EventTarget& target, std::uint32_t kind, std::uint32_t argument = 0);
  void after(Duration wait, EventTarget& target, std::uint32_t kind, std::uint32_t argument = 0) {
    at(now_ + wait, target, kind, argument);
  }

  ProcessIndex add(Stepped& process);
  void wake(ProcessIndex index);                  // something became ready for it
  void pause(ProcessIndex index, Instant until);  // is not scheduled before then
  void kill(ProcessIndex index);                  // is never scheduled again
  bool alive(ProcessIndex index) const { return slots_[index].alive; }
  // The process asked again and again to be stepped at once although nothing moved: it would burn a core.
  bool spins(ProcessIndex index) const { return slots_[index].idle_steps >= kIdleStepsMax; }
  static constexpr int kIdleStepsMax = 100;

  // Handles events in order until none is left before `until`, or `stop` is raised. Returns false when stopped.
  bool run_until(Instant until);
  void stop() { stopped_ = true; }

 private:
  struct Pending {
    Instant when;
    std::uint64_t order;
    EventTarget* target;
    std::uint32_t kind;
    std::uint32_t argument;
    bool operator>(const Pending& other) const { return when != other.when ? when > other.when : order > other.order; }
  };
  struct Slot {
    Stepped* process;
    bool alive = true;
    Instant paused_until{};
    int idle_steps = 0;
    Instant scheduled = kNever;  // the step that will happen; later entries in the queue are stale
  };

  void on_event(std::uint32_t kind, std::uint32_t argument) override;
  void schedule_step(ProcessIndex index, Instant when);

  Scheduling scheduling_;
  SimRandom random_;
  Digest digest_;
  Instant now_{};
  std::uint64_t next_order_ = 0;
  std::uint32_t next_trace_id_ = 1;
  std::uint64_t events_handled_ = 0;
  std::uint64_t events_max_ = UINT64_MAX;
  bool stopped_ = false;
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> queue_;
  std::vector<Slot> slots_;
};

}  // namespace r2ccl::sim
