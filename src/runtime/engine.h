#pragma once
// Everything a process has for talking to others: listeners, control, sessions, and what is known about NICs. It is an
// object, not a singleton, because the simulator makes many. step(now) drives all of it; runtime/threads decides which
// thread calls it.
//
// Order      listen(), host() in one process, join(), step() until ready(), then sessions. A process may host and
//            join any number of rendezvous. All share its sessions: one per other process, however often they meet.
// Ownership  Provider, keyring, telemetry and what env names are borrowed and outlive the engine.
// Threads    One driver at a time.
// Failure    A peer's death ends its session alone (session/session.h); the engine goes on.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/control.h"
#include "env/env.h"
#include "env/secret.h"
#include "health/verdict.h"
#include "runtime/judge.h"
#include "session/session.h"
#include "telemetry/telemetry.h"
#include "topology/nic.h"
#include "transport/link.h"
#include "transport/stream/keyring.h"

namespace r2ccl {

struct EngineConfig {
  SessionConfig session;
  ServerId server;
  std::uint32_t rank = 0;
  std::string host;
  std::optional<NicId> management_nic;  // carries control alone, never data
  NicId place_nic;                      // leads to the place where processes meet: the management NIC or a data NIC
  Duration probe_timeout = 250ms;
};

// Bounds of what may wait inside an engine.
struct EngineLimits {
  static constexpr std::size_t kAcceptsPerStep = 64;
  static constexpr std::size_t kEarlyLinksMax = 64;  // data links of processes the roster does not name yet
  static constexpr Duration kEarlyLinkTime = 2s;
  static constexpr std::size_t kProbeLinksMax = 64;  // answered probes whose other end has not closed yet
  static constexpr Duration kProbeLinkTime = 1s;
  static constexpr Duration kChoresWait = 50us;  // chores wait so long for messages that come one after the other
};

// Something that lives on sessions and is driven with them, such as a communicator. It gets its group's completions.
class EngineTask {
 public:
  virtual ~EngineTask() = default;
  virtual void on_completion(ProcessId peer, const Completion& completion) = 0;
  // Only where sessions hand such messages over; whoever takes it gives it back later. Who wants none gives it back at
  // once: else what the sender was granted for it would be used up for good.
  virtual void on_early(Session& session, EarlyMessage message) { session.give_back(std::move(message)); }
  virtual void on_notice(ProcessId from, ByteView bytes) = 0;  // the task's other end called Engine::notify()
  virtual Turn step(Instant now) = 0;  // after the sessions; what it posts leaves in the same turn
};

class Engine final {
 public:
  Engine(Env env, Provider& provider, Keyring& keyring, Telemetry& telemetry, ProcessId self,
         const EngineConfig& config);
  ~Engine();

  // Listens on every NIC. NICs that can not listen are left out and named in the log; none left is an error.
  Status listen();
  // Becomes the root of a rendezvous of `expected` processes (0: as many as its members say) and makes its id. The id
  // holds the addresses of several data NICs, so that a job starts although one NIC is down. Call it after listen() and
  // before join() of that id.
  Result<UniqueId> host(std::size_t expected) { return host(expected, nullptr); }
  // The same at a place: this NIC listens for control at `port` (0: the system chooses), and that address is the id's
  // place. The secret is drawn unless one is given.
  struct Place {
    NicId nic;
    std::uint16_t port = 0;
    std::optional<Secret> secret;
  };
  Result<UniqueId> host_at(const Place& place, std::size_t expected) { return host(expected, &place); }
  // Joins as `rank` of `expected` (0: the root knows). The key names the rendezvous from now on.
  KeyId join(const UniqueId& id, std::uint32_t rank, std::uint32_t expected = 0);
  KeyId join(const UniqueId& id) { return join(id, self_.rank); }
  // True: everybody is there, in this rendezvous, or in every one that was joined (at least one).
  bool ready(KeyId rendezvous) const;
  bool ready() const;
  // Why the root refuses this process, in one sentence; empty: it does not. Attempts go on.
  const std::string& join_failure(KeyId rendezvous) const;
  // The members by rank; empty until ready. Without a rendezvous: every process ever met.
  const std::vector<ProcessInfo>& roster(KeyId rendezvous) const;
  const std::vector<ProcessInfo>& roster() const;
  // How control reaches the root; nullopt: not connected, or the root is here.
  std::optional<ControlWay> control_way(KeyId rendezvous) const;
  // Members that have said goodbye, in that order; empty unless the root is here.
  const std::vector<ProcessId>& left(KeyId rendezvous) const;
  // Says goodbye to a rendezvous. Sessions stay, and a root that is here stays until everybody has left.
  void leave(KeyId rendezvous, Instant now);
  const ProcessInfo& self() const { return self_; }

  // The session with another process of the roster, opened on first use with all its paths. It stays until the engine
  // goes, also when the peer is down. Throws a Bug when there is no such process.
  Session& session(ProcessId peer);
  Session* find_session(ProcessId peer);
  // Grows whenever a path of any session goes down, comes up or is trusted again, and whenever a NIC here or at a peer
  // loses its carrier or has it again.
  std::uint64_t path_changes() const;
  // NICs of this process that have no carrier now, whether anything uses them or not.
  const std::set<NicId>& without_carrier() const;

  // From now on the task is driven and gets the group's completions of every session. A group has one task; a task may
  // have many groups. Without any task completions stay in their sessions; with one, those of groups without a task are
  // dropped.
  void attach(GroupId group, EngineTask& task);
  void detach(GroupId group);

  // Sends a notice to the group's task in another process, over data paths and the control network. Best effort: it may
  // come twice, or not at all.
  void notify(ProcessId to, GroupId group, ByteView bytes);

  Turn step(Instant now);
  // Sends what was posted without looking for what has arrived: the cheap half of a step, for a caller that posts.
  void flush(Instant now);

  void drain(NicId nic, Instant now);
  void undrain(NicId nic, Instant now);
  void finish(Instant now);  // all sessions and control; finished() when everything is said
  bool finished() const;

  // Verdicts reached so far, oldest first, at most kVerdictsMax.
  const std::vector<Verdict>& verdicts() const;
  static constexpr std::size_t kVerdictsMax = Judge::kVerdictsMax;

 private:
  Result<UniqueId> host(std::size_t expected, const Place* place);
  ProcessInfo self_;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace r2ccl
