#pragma once
// What a communicator is made with, and the values it answers with.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/agreement/health_map.h"
#include "comm/agreement/plan_source.h"
#include "control/unique_id.h"
#include "health/verdict.h"
#include "telemetry/stats_page.h"
#include "topology/cluster.h"

namespace r2ccl {

// Progress of what one submit() asked for. Written with the engine held.
struct CallTicket {
  bool done = false;
  Status result;
};
using TicketPtr = std::shared_ptr<CallTicket>;

inline constexpr Duration kLossKnownWithin = 5s;

// Whoever wants to know how the calls of a communicator get on: the status page, and faults that wait for a moment of
// a call. It is called with the engine held, while something moves, so it must be quick.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // A collective began (no share yet), or some of its messages are done: its number, their share of its bytes in
  // millionths, and how many bytes those are at this rank.
  virtual void on_progress(const Reached& reached, std::uint64_t bytes, Instant now) = 0;
  // Said once: who the members are, by rank. The NIC that it answers is lost to begin with, at every rank's
  // knowledge: the communicator is ready once all have agreed on the map without it, at most kLossKnownWithin later.
  virtual std::optional<NicName> on_members(const std::vector<ProcessInfo>& members, Instant now) = 0;
};

struct CommConfig {
  std::string mode;       // comm/agreement/plans.h; empty: auto, or in a World as its settings say
  std::string algorithm;  // empty: as the mode says; else one by name, where it applies
  Fabric fabric = Fabric::kRouted;
  LinkCosts costs{};
  CallObserver* observer = nullptr;  // borrowed. Null: nobody counts, and counting costs nothing
  bool shared_memory = false;        // between ranks of one server, where they can (neighbours.h); at every rank of it
  // Who makes plans while the communicator goes on; borrowed. Null: it makes them itself, in step(), however long
  // that takes.
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

}  // namespace r2ccl
