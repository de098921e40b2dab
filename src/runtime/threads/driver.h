#pragma once
// Decides which thread steps an Engine. An engine has no lock, so one thread drives at a time: a progress thread by
// default, or a caller that waits, which then needs no other thread to get its message.
//
//   nobody waits       the progress thread steps: it spins briefly, then sleeps in the Waiter (epoll)
//   a caller waits     it takes the engine and steps it itself; the progress thread is parked and takes over again
//                      `resume` after nobody drives any more
//   more callers wait  they sleep; the one that drives looks at their conditions and deadlines too, and when it leaves,
//                      one of them drives
//   a caller polls     it steps the engine if nobody else does, and the progress thread is parked; while turns take
//                      long, because much data moves, the progress thread drives and polling costs next to nothing
//
// So a blocking exchange costs no hand-over, and credits, notices and agreement are answered within 5 ms whatever
// application threads do. A driver that finds nothing spins for `spin` and then sleeps: on machines with fewer cores
// than processes a spinning library starves its own peers. Where spinning does not pay it sleeps at once (spin.h).
//
// Threads    wanted() and looked_at() belong inside a body or a condition, and nudge() may be called from anywhere.
//            Everything else may be called from any thread, but not from inside a body or a condition.
// Failure    A Bug thrown by the engine ends driving: it is thrown to every caller, now and later.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "base/function_ref.h"
#include "env/env.h"
#include "env/waiter.h"
#include "runtime/engine.h"
#include "runtime/threads/fair_mutex.h"
#include "runtime/threads/spin.h"

namespace r2ccl {

struct DriverConfig {
  Duration spin = 1ms;
  Duration resume = 5ms;  // the progress thread takes over this long after the last caller drove
  Duration sleep_max = 1s;
  // A turn that moves something and takes longer is long. After many long turns of callers that poll, the progress
  // thread drives, until its turns are short again. One long turn says nothing: the thread may have been preempted.
  // Zero: never.
  Duration long_turn = 8us;
};

class Driver final {
 public:
  Driver(Engine& engine, Clock& clock, Waiter& waiter, const DriverConfig& config);
  ~Driver();  // stops the progress thread

  void start();  // starts the progress thread
  void stop();

  // Runs `body` with the engine to itself (posting work, reading state), then wakes whoever drives. If nobody does,
  // posted work leaves at once by Engine::flush().
  void with_engine(FunctionRef<void(Engine&)> body);
  // For a condition that takes its time, from inside it: others wait, for the engine or for something it may bring.
  bool wanted() const { return engine_mutex_.wanted() || !callers_.empty(); }
  // For callers that look again and again: makes one turn of the engine, if it is free, nobody drives it, and there may
  // be something to do. Never waits. False: no turn was made.
  bool poll();
  // For a caller that has queued something for a task: sends it now, under the conditions of poll(), without reading
  // first. It reads as well if nobody has for kReadEvery, because a caller that only sends may never poll. False:
  // nothing was done.
  bool post();
  // Work for a task was queued outside with_engine(): whoever drives looks at once. Never waits.
  void nudge();
  // When the driving thread last looked at the clock. Conditions use it to save a look of their own.
  Instant looked_at() const { return looked_at_; }
  // Drives, or lets the present driver drive, until `done` (called with the engine held) or the deadline. True if done.
  using Condition = FunctionRef<bool(Engine&)>;
  bool wait_until(Condition done, Instant deadline);

 private:
  using Hold = std::unique_lock<FairMutex>;
  struct Caller;
  class Driving;
  static constexpr Duration kStepEvery = 1ms;
  static constexpr Duration kReadEvery = 100us;
  static constexpr int kLongWeight = 3;   // a long turn adds this, a short one takes 1 off;
  static constexpr int kLongTurns = 6;    // at this sum the progress thread takes over
  static constexpr int kShortTurns = 32;  // after so many in a row, callers that poll have the engine back
  enum class Outcome : std::uint8_t { kWaiting, kDone, kLate, kDrive };  // how another thread ended a caller's wait

  void progress_loop();
  void progress(Hold& hold);
  void park();
  template <class Body>
  bool caller_turn(Body&& body);
  void judge_turn(Duration took);
  void hand_over();
  void take_over();
  void hand_back(const Turn& turn, Instant began);
  bool drive(Hold& hold, Condition done, Instant deadline);
  Outcome let_drive(Hold& hold, Condition done, Instant deadline);
  void leave(Instant now);
  Instant settle_callers(Instant now);
  void decide(Caller& caller, Outcome outcome);
  Turn step_engine(Instant now);
  template <class Body>
  void guarded(Body&& body);
  // A time without anything to do.
  struct Wait {
    Instant since{};
    bool decided = false;
    bool spinning = false;
  };
  void pause(Hold& hold, const Turn& turn, Instant now, Wait& wait, Instant deadline);
  void wake_sleeper();
  Instant last_driven() const { return Instant(Duration(last_driven_.load())); }

  Engine& engine_;
  Clock& clock_;
  Waiter& waiter_;
  const DriverConfig config_;

  FairMutex engine_mutex_;  // guards the engine and what follows, up to the next blank line
  bool progress_exists_ = false;
  bool progress_drives_ = false;  // the progress thread runs and is not parked
  std::deque<Caller*> callers_;   // waiting while another caller drives
  std::exception_ptr broken_;
  SpinChoice spin_;  // under engine_mutex_
  Instant looked_at_{};
  Instant last_stepped_{};
  int long_turns_ = 0;   // the sum of kLongWeight
  int short_turns_ = 0;  // the progress thread's, in a row since it took over
  Instant next_turn_{};  // poll() has nothing to do before this, unless something comes

  std::atomic<int> asleep_ = 0;            // drivers in the Waiter, the mutex released; changed with the engine held
  std::atomic<bool> nudged_ = false;       // nudge() was called since the last turn
  std::atomic<bool> called_ = false;       // a caller that polls wants the progress thread to drive, and drives until
  std::atomic<bool> handed_over_ = false;  // it does; then this is set until the progress thread finds nothing to do

  // Written with the engine held; read by the parked progress thread without it.
  std::atomic<bool> caller_drives_ = false;
  std::atomic<Duration::rep> last_driven_;  // when a caller last drove, since the epoch of Instant
  std::atomic<bool> stop_ = false;

  std::mutex park_mutex_;  // guards the parked progress thread; never taken before the engine
  std::condition_variable unpark_;
  std::atomic<bool> parked_deep_ = false;  // it sleeps until a caller leaves, not until a time

  std::mutex callers_mutex_;  // guards Caller::outcome
  std::thread thread_;
};

}  // namespace r2ccl
