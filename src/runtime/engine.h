#pragma once
// Everything a process has for talking to others: listeners, control, sessions, what is known about NICs. An object, no
// singleton: the simulator makes many. step(now) drives all of it; runtime/threads decides who calls.
//
// Order      listen(), host_root() in one process, join(), step() until ready(), then sessions.
// Ownership  Provider, keyring, telemetry and what env names are borrowed and outlive the engine.
// Threads    One driver at a time.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/control.h"
#include "env/env.h"
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
  NicId control_nic;                // NIC the control connection uses
  bool control_nic_is_data = true;  // false: a management NIC that carries no data paths
  Duration probe_timeout = 250ms;
};

// Bounds of what may wait inside an engine.
struct EngineLimits {
  static constexpr std::size_t kAcceptsPerStep = 64;
  static constexpr std::size_t kEarlyLinksMax = 64;  // data links of processes the roster does not name yet
  static constexpr Duration kEarlyLinkTime = 2s;
  static constexpr std::size_t kProbeLinksMax = 64;  // answered probes whose other end has not closed yet
  static constexpr Duration kProbeLinkTime = 1s;
  static constexpr Duration kFarewell = 1s;  // how long a root waits for the others' BYE
};

class Engine final : private NoticeSender {
 public:
  Engine(Env env, Provider& provider, Keyring& keyring, Telemetry& telemetry, ProcessId self,
         const EngineConfig& config);
  ~Engine() override;

  // Listens on every NIC. NICs that can not listen are left out and named in the log; none left is an error.
  Status listen();
  // Becomes the root of a rendezvous of `expected` processes; returns where it listens (on the control NIC).
  // `port` 0: of the system's choice. Call it after listen() and before join().
  Result<Address> host_root(std::size_t expected, std::uint16_t port = 0);
  // Where a hosted root can be reached, for the unique id: the control NIC first, then the data NICs, so that a job starts and
  // keeps its control network when one NIC is down. At most UniqueId::kAddressesMax.
  std::vector<Address> root_addresses() const;
  // Joins the rendezvous; ready() once everybody has.
  void join(const UniqueId& id);
  bool ready() const;
  // Why the root refuses this process, in one sentence; empty: it does not. Attempts go on.
  const std::string& join_failure() const;
  const std::vector<ProcessInfo>& roster() const;
  const ProcessInfo& self() const { return self_; }

  // The session with another process of the roster; opened on first use with all its paths. Once there it stays, also when the peer
  // is down, until the engine goes. A Bug when there is no such process.
  Session& session(ProcessId peer);
  Session* find_session(ProcessId peer);

  Turn step(Instant now);
  // Only sends what was posted, without looking for what has arrived: the cheap half of a turn, for a caller that posts.
  void flush(Instant now);

  void drain(NicId nic, Instant now);
  void undrain(NicId nic, Instant now);
  void finish(Instant now);  // all sessions and control; finished() when everything is said
  bool finished() const;

  // Verdicts reached so far, oldest first, at most kVerdictsMax.
  const std::vector<Verdict>& verdicts() const;
  static constexpr std::size_t kVerdictsMax = Judge::kVerdictsMax;

 private:
  void send_notice(ProcessId to, ByteView bytes) override;
  ProcessInfo self_;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace r2ccl
