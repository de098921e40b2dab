#pragma once
// The one-driver rule. A Driver owns the right to step an Engine: a progress thread by default, or whichever caller waits.
//
//   nobody waits       the progress thread steps: spins briefly, then sleeps in the Waiter (epoll)
//   a caller waits     it takes the engine and steps it itself; the progress thread is parked, and resumes within `resume` of
//                      nobody driving
//   more callers wait  they sleep; the driving caller looks at their conditions and deadlines too, and when it leaves it passes the
//                      right to drive on to one of them
//   a caller polls     it steps the engine itself where nobody else does, and the progress thread is parked; while turns take long,
//                      because much data moves, the progress thread does the work and polling costs next to nothing
//
// So a blocking exchange costs no hand-over, and credits, notices and agreement are answered within 5 ms whatever
// application threads do. A driver that finds nothing spins for `spin` and then sleeps: on machines with fewer cores than
// processes a spinning library starves its own peers. Where spinning does not pay it sleeps at once (spin.h).
//
// Threads    Everything but wanted() may be called from any thread, but not from inside a body or a condition.
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
  // Where many turns of a caller that polls take longer and move something, the progress thread does such work from now on, until most of
  // its turns are short again. One long turn says nothing: a thread may have been preempted. Zero: never.
  Duration long_turn = 8us;
};

class Driver final {
 public:
  Driver(Engine& engine, Clock& clock, Waiter& waiter, const DriverConfig& config);
  ~Driver();  // stops the progress thread

  void start();  // starts the progress thread
  void stop();

  // Runs `body` with the engine to itself (posting work, reading state), then wakes whoever drives. When nobody does, the engine
  // is stepped once, so that posted work leaves at once.
  void with_engine(FunctionRef<void(Engine&)> body);
  // For a condition that takes its time, from inside it: others wait, for the engine or for something it may bring.
  bool wanted() const { return engine_mutex_.wanted() || !callers_.empty(); }
  // For callers that look again and again: one turn of the engine, if it is free, nobody drives it, and there may be something to do.
  // Never waits. False: no turn was made.
  bool poll();
  // For a caller that has queued something for a task: it leaves now, as poll() would do it, before anything is read. What has come is
  // read too when nobody did for kReadEvery: who only sends may never poll. False: nothing was done.
  bool post();
  // There is work for a task that was not posted in with_engine(): whoever drives looks at once. Never waits.
  void nudge();
  // When whoever drives last looked at the clock, for conditions, which then need not.
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
  static constexpr int kLongWeight = 3;   // a long turn counts as much as so many short ones
  static constexpr int kLongTurns = 6;    // so much more weight of long turns: the progress thread takes over
  static constexpr int kShortTurns = 32;  // in a row, and callers that poll may have the engine back
  enum class Outcome : std::uint8_t { kWaiting, kDone, kLate, kDrive };  // of a caller while another one drives

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
  // One spell without anything to do.
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
  int long_turns_ = 0;   // of callers that poll, weighed
  int short_turns_ = 0;  // in a row, of the progress thread since it took over
  Instant next_turn_{};  // of callers that poll: nothing is due before, unless something comes

  std::atomic<int> asleep_ = 0;            // drivers in the Waiter, the mutex released; changed with the engine held
  std::atomic<bool> nudged_ = false;       // until the next turn
  std::atomic<bool> called_ = false;       // by a caller that polls, who drives on until the progress thread has come;
  std::atomic<bool> handed_over_ = false;  // then until that finds nothing to do

  // Written with the engine held; read by the parked progress thread without it.
  std::atomic<bool> caller_drives_ = false;
  std::atomic<Duration::rep> last_driven_;  // by a caller; since the epoch of Instant
  std::atomic<bool> stop_ = false;

  std::mutex park_mutex_;  // the progress thread's bed; never taken before the engine
  std::condition_variable unpark_;
  std::atomic<bool> parked_deep_ = false;  // it sleeps until a caller leaves, not until a time

  std::mutex callers_mutex_;  // guards Caller::outcome
  std::thread thread_;
};

}  // namespace r2ccl
