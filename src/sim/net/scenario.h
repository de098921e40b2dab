#pragma once
// One simulated run as a value, drawn from a seed, and what came of it. Each seed switches on a random subset of
// features and faults, so that runs differ from each other and rare combinations come up.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "session/session.h"
#include "sim/net/collectives/collective_plan.h"
#include "sim/net/fault_plan.h"
#include "sim/net/wires/sim_network.h"

namespace r2ccl::sim {

struct PlannedMessage {
  std::uint8_t from = 0;  // process
  std::uint8_t to = 0;
  std::uint8_t stream = 0;
  std::uint8_t group = 0;
  std::uint32_t bytes = 0;
  std::uint32_t posted_bytes = 0;  // the receive may be larger
  std::uint64_t tag = 0;
  Duration send_at{};  // after the start; sends (and receives) of a stream happen in the order of the plan
  Duration receive_at{};
  bool mapped_send = true;  // false: memory the processor can not address, every access checked
  bool mapped_receive = true;
};

// What an application or an operator does besides sending and receiving.
struct PlannedAction {
  enum class Kind : std::uint8_t { kAbort, kDrain, kUndrain } kind{};
  Duration at{};
  std::uint8_t process = 0;
  std::uint8_t subject = 0;  // group, communicator or NIC
};
std::string to_text(const PlannedAction& action);
inline constexpr std::uint8_t kGroups = 2;

// An event of telemetry, and where it happened.
struct Sighting {
  std::size_t process;
  std::size_t peer;
  NicRef here, there;  // the ends of the event's path
  const Event& event;
};

struct Scenario {
  std::uint64_t seed = 0;
  std::size_t processes = 2;
  std::size_t per_server = 1;  // processes; the last server may have fewer
  std::size_t data_nics = 1;   // one more on every server is for management
  NetworkConfig network;
  Scheduling scheduling;
  SessionConfig session;
  std::vector<PlannedMessage> messages;
  std::optional<CollectivePlan> collectives;  // instead of messages
  FaultPlan plan;
  std::vector<PlannedAction> actions;  // by time
  bool early_faults = false;           // the plan starts before the processes have found each other
  bool calm = false;                   // no path may go down at all
  bool never_silent = false;           // slow, late or paused, but never silent: no path may be judged silent
  NicId management_nic() const { return {static_cast<std::uint8_t>(data_nics)}; }
  std::size_t servers() const { return (processes + per_server - 1) / per_server; }
  std::uint8_t server_of(std::size_t process) const { return static_cast<std::uint8_t>(process / per_server); }
  std::uint8_t first_process(std::size_t server) const { return static_cast<std::uint8_t>(server * per_server); }
  bool aborts(std::uint8_t group) const;  // or communicator
  bool drains() const;
  bool finish = true;  // ends with BYE
  // For sweeps: sees every event of both ends as it happens, and may break the network there and then.
  std::function<void(const Sighting&, Network&)> watch;
  // For people: every event of both ends, faults and log lines. Not part of the run.
  std::function<void(const std::string&)> trace;
};

enum class Load : std::uint8_t { kMessages, kCollectives };
Scenario draw_scenario(std::uint64_t seed, const Rules& rules = {});  // of either load
Scenario draw_scenario(std::uint64_t seed, Load load, const Rules& rules = {});

struct RunReport {
  bool ok = true;
  std::vector<std::string> violations;  // sentences, at most kViolationsMax
  std::uint64_t digest = 0;
  std::uint64_t events = 0;
  std::size_t faults = 0;
  std::size_t repairs = 0;  // paths fenced
  std::uint64_t replayed_bytes = 0, hedged_bytes = 0, resent_bytes = 0;
  std::size_t collectives = 0;  // that ended right, counted at rank 0
  std::size_t maps = 0;         // of NICs' health that collectives were planned by, beyond each communicator's first
  std::size_t regroups = 0;     // of ranks whose communicator failed
  std::size_t left_amid_faults = 0;  // processes that left in order while faults were under way
  std::size_t sessions_shared = 0;   // by two communicators or more that both ran collectives
  Duration simulated{};
};
inline constexpr std::size_t kViolationsMax = 20;

RunReport run_scenario(const Scenario& scenario);

// Every rule of session/rules.h, broken alone.
struct NamedRules {
  std::string name;
  Rules rules;
};
std::vector<NamedRules> broken_rules();

}  // namespace r2ccl::sim
