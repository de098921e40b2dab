#pragma once
// A communicator of one rank: joins the others, agrees with them on plans, runs calls in order.
//
//   kJoining ─▶ kReady ─▶ kFinishing ─▶ kFinished
//       └──────────┴──────────┴──────▶ kFailed        abort, peer down, mismatched calls, a bug; error() says which
//
// Calls of one submit() that are sends and receives run side by side, whatever their order; collectives run one after another in the
// order of submission, the same on every rank. Each collective is bound to a plan when it gets its number: (call, cluster of the health
// map in force). Maps change only at agreed operation numbers (agreement.h), so a plan that takes its time still is the right one.
//
// Role       A state machine over an Engine: no thread, no clock, no blocking; the simulator drives it as it is. comm/world.h has
//            the blocking calls.
// Ownership  Engine, device, log outlive it. User memory stays valid until its ticket is done.
// Threads    The engine's driver.
// Failure    Once failed it stays so; every pending and later ticket is done with the error, after nothing touches user memory.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/agreement/health_map.h"
#include "comm/agreement/plan_source.h"
#include "comm/call.h"
#include "comm/invitation.h"
#include "control/unique_id.h"
#include "device/device.h"
#include "env/env.h"
#include "health/verdict.h"
#include "runtime/engine.h"
#include "telemetry/stats_page.h"

namespace r2ccl {

// Progress of what one submit() asked for. Read and written with the engine held.
struct CallTicket {
  bool done = false;
  Status result;
};
using TicketPtr = std::shared_ptr<CallTicket>;

inline constexpr Duration kLossKnownWithin = 5s;

struct CommConfig {
  std::string mode;       // comm/plans.h; empty: auto, or in a World as its settings say
  std::string algorithm;  // empty: as the mode says; else one by name, where it applies
  Fabric fabric = Fabric::kRouted;
  LinkCosts costs{};
  // Told when a collective begins and as its messages are done: its number, their share of its bytes in millionths, and how many bytes
  // those are at this rank. For faults that wait for such a moment; empty: nobody counts.
  std::function<void(const Reached& reached, std::uint64_t bytes, Instant now)> on_progress;
  // Told once who the members are, by rank. The NIC that it answers is lost to begin with, at every rank's knowledge: the communicator is
  // ready once all have agreed on the map without it, at most kLossKnownWithin later.
  std::function<std::optional<NicName>(const std::vector<ProcessInfo>& members, Instant now)> on_members;
  bool shared_memory = false;  // between ranks of one server, where they can (neighbours.h); at every rank of a server
  // Who makes plans while the communicator goes on; borrowed. Null: it makes them itself, in step(), however long that takes.
  PlanSource* plans = nullptr;
};

enum class CommState : std::uint8_t { kJoining, kReady, kFinishing, kFinished, kFailed };

// Of the collective that ran last.
struct PlanInUse {
  std::string algorithm;
  std::uint64_t health_version = 0;
  std::uint64_t operation = 0;  // its number
};

// How long calls would take: what was known at once, and the plans that have to be made for the rest.
struct TimeEstimate {
  double known_s = 0;
  std::vector<PlanQuestion> open;
};
Result<double> seconds_of(const TimeEstimate& estimate);  // makes those plans: without the engine

class Communicator final : public EngineTask {
 public:
  Communicator(Engine& engine, Env env, const Device& device, const UniqueId& id, std::uint32_t rank,
               std::uint32_t size, const CommConfig& config);
  ~Communicator() override;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }
  CommState state() const;
  const Error& error() const;  // of kFailed
  const PlanInUse& plan_in_use() const;
  // That the last collective used, or the next one will if none has begun; null before the members are known.
  const HealthMap* health_map() const;
  // Ranks the running call waits for; empty when it gets on.
  std::vector<std::uint32_t> waiting_for() const;

  // The calls were validated. kMisuse when the communicator does not take calls any more.
  Result<TicketPtr> submit(std::vector<Call> calls);
  // Takes no more calls; finished when all submitted ones are done at every rank.
  void finish();
  // Ends it here and at every rank; when it returns nothing touches user memory.
  void abort(const std::string& why);
  // How long these calls would take with nothing else to do, by the cost model: sends and receives side by side, collectives one after
  // another.
  Result<TimeEstimate> estimate(const std::vector<Call>& calls);
  // For the id of another communicator, of the ranks `stay` of this one, whatever became of this one: the first has it. The n-th invitation
  // of the same ranks is the same one at all of them.
  Result<std::unique_ptr<Invitation>> invite(const std::vector<std::uint32_t>& stay, std::optional<UniqueId> id);

  // For a caller that waits: goes on with what was submitted while only memory is waited for, without a turn of the engine. Between two
  // looks it calls `relax` with how many there were in a row, which says whether to go on. Returns when it can not go on like this, when
  // something is done, or when the engine should have its turn. Only where it may.
  bool may_spin() const;
  void spin(Instant now, const std::function<bool(int looks)>& relax);
  std::uint32_t ranks_here() const;  // of this communicator on this server, once joined

  void on_completion(ProcessId peer, const Completion& completion) override;
  void on_notice(ProcessId from, ByteView bytes) override;
  Turn step(Instant now) override;

 private:
  struct Impl;
  const std::uint32_t rank_;
  const std::uint32_t size_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace r2ccl
