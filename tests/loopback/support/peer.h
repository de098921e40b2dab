#pragma once
// One end of a pair: a process with four loopback NICs, as shipped, and faults on request.

#include <memory>
#include <optional>
#include <utility>

#include "env/settings.h"
#include "runtime/threads/process.h"
#include "tests/loopback/support/shared.h"

namespace r2ccl::loopback {

inline constexpr std::size_t kNics = 4;
inline constexpr GroupId kGroup{0x6c6f6f70};

class Peer final : private EventListener {
 public:
  static constexpr Duration kStartWithin = 10s;

  // Throws with a sentence when something does not start. `log` gets every event of the telemetry.
  Peer(std::size_t end, const Settings& settings, EventLog& log);
  ~Peer() override;

  UniqueId host();  // the ticket for both ends; at one of them
  void join(const UniqueId& id, const Secret& group_secret);

  Driver& driver() { return process_->driver(); }
  ProcessId self() const { return process_->self().process; }
  ProcessId other() const { return other_.process; }
  const ProcessInfo& other_info() const { return other_; }
  // Runs `body` with the session to itself.
  template <class Body>
  auto with_session(const Body& body) {
    std::optional<decltype(body(std::declval<Session&>()))> answer;
    driver().with_engine([&](Engine& engine) { answer.emplace(body(engine.session(other_.process))); });
    return std::move(*answer);
  }

  Status inject(FaultSpec spec);  // acts now, here
  void drain(NicId nic);
  void undrain(NicId nic);
  // Waits until every rail carries chunks and no fault is left. False: not in time.
  bool settle(Duration within);
  // The same for one rail and any state.
  bool wait_for_state(NicId nic, PathState state, Duration within);
  Counters counters();
  StreamCounters stream_counters();
  bool finish() { return process_->finish(); }

 private:
  void on_event(const Event& event) override { log_.add(event); }

  EventLog& log_;
  ServerId server_;
  std::unique_ptr<Process> process_;
  ProcessInfo other_;
};

// The settings of an end: production's, but a path that returns is trusted soon however often it died, because a test
// can not wait for a minute.
Settings quick_settings();

}  // namespace r2ccl::loopback
