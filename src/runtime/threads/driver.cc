#include "runtime/threads/driver.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/assert.h"

namespace r2ccl {

// A caller that waits while another one drives.
struct Driver::Caller {
  Condition done;
  Instant deadline;
  Outcome outcome = Outcome::kWaiting;
  std::condition_variable decided{};
};

// A caller's right to drive. The destructor passes it on, also when an exception ends the drive. The engine is held in
// the constructor and in the destructor.
class Driver::Driving final {
 public:
  explicit Driving(Driver& driver) : driver_(driver) {
    driver_.caller_drives_ = true;
    driver_.handed_over_ = false;
  }
  ~Driving() { driver_.leave(driver_.clock_.now()); }
  Driving(const Driving&) = delete;
  Driving& operator=(const Driving&) = delete;

 private:
  Driver& driver_;
};

Driver::Driver(Engine& engine, Clock& clock, Waiter& waiter, const DriverConfig& config)
    : engine_(engine),
      clock_(clock),
      waiter_(waiter),
      config_(config),
      last_stepped_(clock.now()),
      last_driven_((clock.now() - config.resume).time_since_epoch().count()) {}

Driver::~Driver() {
  stop();
}

void Driver::start() {
  R2CCL_ASSERT(!thread_.joinable(), "the progress thread runs already");
  stop_ = false;
  thread_ = std::thread([this] { progress_loop(); });
}

void Driver::stop() {
  if (!thread_.joinable()) return;
  {
    const Hold hold(engine_mutex_);
    stop_ = true;
    wake_sleeper();
  }
  {
    const std::lock_guard guard(park_mutex_);
    unpark_.notify_all();
  }
  thread_.join();
}

void Driver::with_engine(FunctionRef<void(Engine&)> body) {
  const Hold hold(engine_mutex_);
  if (broken_) std::rethrow_exception(broken_);
  body(engine_);
  next_turn_ = {};
  if (!caller_drives_ && !progress_drives_) guarded([&] { engine_.flush(clock_.now()); });
  wake_sleeper();
}

// `body` is given the time, makes a turn, and says whether it moved something; no value: nothing was due.
template <class Body>
bool Driver::caller_turn(Body&& body) {
  if (handed_over_.load(std::memory_order_relaxed)) return false;
  const Hold hold(engine_mutex_, std::try_to_lock);
  if (!hold) return false;
  if (broken_) std::rethrow_exception(broken_);
  if (caller_drives_ || handed_over_) return false;
  const Instant now = clock_.now();
  last_driven_ = now.time_since_epoch().count();
  const std::optional<bool> moved = body(now);
  const bool may = moved.value_or(false) && progress_exists_ && config_.long_turn > Duration::zero();
  if (may) judge_turn(clock_.now() - now);
  return moved.has_value();
}

bool Driver::poll() {
  return caller_turn([this](Instant now) -> std::optional<bool> {
    if (!nudged_ && now < next_turn_ && !waiter_.poll()) return std::nullopt;
    return step_engine(now).moved;
  });
}

bool Driver::post() {
  return caller_turn([this](Instant now) -> std::optional<bool> {
    nudged_ = false;
    guarded([&] { engine_.flush(now); });
    next_turn_ = now;  // the next turn looks at what that brought
    if (now >= last_stepped_ + kReadEvery) step_engine(now);
    return true;
  });
}

void Driver::nudge() {
  nudged_ = true;
  if (asleep_ > 0) waiter_.wake();
}

bool Driver::wait_until(Condition done, Instant deadline) {
  Hold hold(engine_mutex_);
  if (broken_) std::rethrow_exception(broken_);
  const Instant now = looked_at_ = clock_.now();
  if (done(engine_)) {
    // A caller whose waits are always over at once keeps the progress thread parked without ever driving, so now and
    // then it makes a step.
    if (!caller_drives_ && now >= last_stepped_ + kStepEvery) step_engine(now);
    last_driven_ = now.time_since_epoch().count();
    return true;
  }
  if (caller_drives_) {
    const Outcome outcome = let_drive(hold, done, deadline);
    if (outcome != Outcome::kDrive) return outcome == Outcome::kDone;
  }
  return drive(hold, done, deadline);
}

// ---- callers --------------------------------------------------------------------------------------------------

bool Driver::drive(Hold& hold, Condition done, Instant deadline) {
  const Driving driving(*this);
  Wait wait{.since = clock_.now()};
  for (;;) {
    const Instant now = clock_.now();
    const Turn turn = step_engine(now);
    if (done(engine_)) return true;
    if (now >= deadline) return false;
    const Instant others = settle_callers(now);
    pause(hold, turn, now, wait, std::min(deadline, others));
  }
}

Driver::Outcome Driver::let_drive(Hold& hold, Condition done, Instant deadline) {
  Caller self{done, deadline};
  callers_.push_back(&self);
  wake_sleeper();  // it may sleep past this deadline
  hold.unlock();
  {
    std::unique_lock guard(callers_mutex_);
    self.decided.wait(guard, [&] { return self.outcome != Outcome::kWaiting; });
  }
  hold.lock();
  return self.outcome;
}

// Ends the wait of callers whose condition holds or whose time is over; returns the earliest deadline of the others.
Instant Driver::settle_callers(Instant now) {
  Instant earliest = kNever;
  for (std::size_t i = 0; i < callers_.size();) {
    Caller& caller = *callers_[i];
    const bool done = caller.done(engine_);
    if (done || now >= caller.deadline) {
      callers_.erase(callers_.begin() + static_cast<std::ptrdiff_t>(i));
      decide(caller, done ? Outcome::kDone : Outcome::kLate);
    } else {
      earliest = std::min(earliest, caller.deadline);
      ++i;
    }
  }
  return earliest;
}

// The caller may be gone as soon as callers_mutex_ is free.
void Driver::decide(Caller& caller, Outcome outcome) {
  const std::lock_guard guard(callers_mutex_);
  caller.outcome = outcome;
  caller.decided.notify_one();
}

void Driver::leave(Instant now) {
  last_driven_ = now.time_since_epoch().count();
  if (!callers_.empty()) {
    Caller& next = *callers_.front();
    callers_.pop_front();
    decide(next, Outcome::kDrive);  // caller_drives_ stays: the right is on its way
    return;
  }
  caller_drives_ = false;
  wake_sleeper();  // the progress thread may have slept through this drive, and its timers are old
  if (parked_deep_) {
    const std::lock_guard guard(park_mutex_);
    parked_deep_ = false;
    unpark_.notify_all();
  }
}

// ---- the progress thread ----------------------------------------------------------------------------------------

void Driver::progress_loop() {
  Hold hold(engine_mutex_);
  progress_exists_ = true;
  try {
    while (!stop_) {
      progress_drives_ = true;
      progress(hold);
      progress_drives_ = false;
      if (stop_) break;
      hold.unlock();
      park();
      hold.lock();
    }
  } catch (...) {
    // step_engine() keeps it for the callers.
    progress_drives_ = false;
  }
  if (!hold) hold.lock();
  progress_exists_ = false;
  called_ = handed_over_ = false;
}

// Drives until a caller does, or stop().
void Driver::progress(Hold& hold) {
  Wait wait{.since = clock_.now()};
  take_over();
  for (;;) {
    const Instant now = clock_.now();
    if (caller_drives_)
      wake_sleeper();  // the wake-up that this thread got may have been meant for the caller, who still sleeps
    if (stop_ || caller_drives_ || (!handed_over_ && now < last_driven() + config_.resume)) return;
    const Turn turn = step_engine(now);
    if (handed_over_) hand_back(turn, now);
    pause(hold, turn, now, wait, kNever);
  }
}

void Driver::judge_turn(Duration took) {
  long_turns_ = took > config_.long_turn ? long_turns_ + kLongWeight : std::max(0, long_turns_ - 1);
  if (long_turns_ < kLongTurns) return;
  long_turns_ = 0;
  hand_over();
}

// The progress thread drives as soon as it is awake, whatever callers that poll do, until it finds nothing to do.
void Driver::hand_over() {
  if (called_.exchange(true)) return;
  wake_sleeper();
  const std::lock_guard guard(park_mutex_);
  unpark_.notify_all();
}

void Driver::take_over() {
  if (!called_.exchange(false) || caller_drives_) return;
  handed_over_ = true;
  short_turns_ = 0;
}

// Gives the engine back to callers that poll once turns are short: small messages reach them sooner that way.
void Driver::hand_back(const Turn& turn, Instant began) {
  if (!turn.moved) return;
  const Instant now = clock_.now();
  short_turns_ = now - began > config_.long_turn ? 0 : short_turns_ + 1;
  if (short_turns_ < kShortTurns) return;
  handed_over_ = false;
  last_driven_ = now.time_since_epoch().count();
}

// Sleeps until nobody has driven for `resume`. While one caller drives on and on, it sleeps until that caller leaves.
// But it always waits out one `resume` first, so that callers in a tight loop do not wake it each time.
void Driver::park() {
  std::unique_lock guard(park_mutex_);
  while (!stop_ && !called_) {
    const Duration left = caller_drives_ ? config_.resume : last_driven() + config_.resume - clock_.now();
    if (left <= Duration::zero()) return;
    unpark_.wait_for(guard, left, [&] { return stop_ || called_; });
    if (!caller_drives_) continue;
    parked_deep_ = true;
    if (caller_drives_) unpark_.wait(guard, [&] { return !parked_deep_ || stop_; });
    parked_deep_ = false;
  }
}

// ---- driving ----------------------------------------------------------------------------------------------------

Turn Driver::step_engine(Instant now) {
  if (broken_) std::rethrow_exception(broken_);
  looked_at_ = last_stepped_ = now;
  nudged_ = false;
  Turn turn;
  guarded([&] { turn = engine_.step(now); });
  next_turn_ = turn.moved ? now : turn.next;
  return turn;
}

// A bug in the engine is kept for every later caller.
template <class Body>
void Driver::guarded(Body&& body) {
  try {
    body();
  } catch (...) {
    broken_ = std::current_exception();
    throw;
  }
}

// Between two steps: lets others in, spins, or sleeps.
void Driver::pause(Hold& hold, const Turn& turn, Instant now, Wait& wait, Instant deadline) {
  if (turn.moved) {
    if (wait.spinning) spin_.on_found(now - wait.since, config_.spin);
    wait = {.since = now};
  }
  if (engine_mutex_.wanted()) {
    hold.unlock();
    hold.lock();
    return;
  }
  if (turn.moved || turn.next <= now) return;
  // A caller that handed its work over goes on polling for the outcome, so spinning is worth it whatever SpinChoice
  // says. If this thread slept, the work would go to and fro between the two.
  const bool expected = handed_over_;
  if (!std::exchange(wait.decided, true)) wait.spinning = expected || spin_.spin();
  if (wait.spinning) {
    // Asking the waiter is cheaper than a step, so news is noticed sooner.
    const Instant until = std::min({wait.since + config_.spin, turn.next, deadline});
    // A look is a system call anyway, so other threads may run after each: we may be waiting for one of them.
    for (Instant at = now; at < until; at = clock_.now()) {
      if (waiter_.poll() || engine_mutex_.wanted() || nudged_) return;
      std::this_thread::yield();
    }
    if (until < wait.since + config_.spin) return;
    wait.spinning = false;
    if (!expected) spin_.on_missed();
  }
  handed_over_ = false;
  ++asleep_;
  hold.unlock();
  if (!nudged_) waiter_.wait(now, std::min({turn.next, deadline, now + config_.sleep_max}));
  hold.lock();
  --asleep_;
}

void Driver::wake_sleeper() {
  if (asleep_ > 0) waiter_.wake();
}

}  // namespace r2ccl
