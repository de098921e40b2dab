#pragma once
// One rank's end of a communicator, with blocking calls: what the NCCL API and the tools stand on. An interface, so
// that whoever stands on it can be tested without a network; the one that runs collectives is RealComm.
//
// Threads    Any, at the same time. A caller that waits drives its endpoint itself (runtime/threads/driver.h).
// Failure    Everything comes back as a Result with one sentence.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "comm/agreement/nic_views.h"
#include "comm/call.h"
#include "comm/comm_config.h"
#include "control/unique_id.h"
#include "topology/nic.h"

namespace r2ccl {

class Engine;
class Telemetry;

class Comm {
 public:
  static constexpr Duration kJoinMax = 600s;

  Comm() = default;
  virtual ~Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t size() const = 0;
  // kJoining until the others are there; kFailed with error().
  virtual CommState state() = 0;
  virtual Error error() = 0;
  virtual Status wait_joined() = 0;  // at most kJoinMax

  // Queues calls whose arguments were checked (validate(), call.h): nobody below looks at them again. The ticket is
  // polled or waited for. All calls of one submit() are one group.
  virtual Result<TicketPtr> submit(std::vector<Call> calls) = 0;
  virtual bool done(const TicketPtr& ticket) = 0;
  virtual bool wait_for(const TicketPtr& ticket, Duration most) = 0;  // true: done
  virtual Status wait(const TicketPtr& ticket) = 0;
  virtual Status run(const Call& call) = 0;  // submit and wait
  // How long such calls would take by the cost model, in seconds (communicator.h).
  virtual Result<double> estimate(const std::vector<Call>& calls) = 0;

  virtual PlanInUse plan_in_use() = 0;
  virtual Status finalize() = 0;  // waits for everything submitted, at every rank
  virtual void abort(const std::string& why) = 0;

  // The ranks `stay` of this one hear of the id of another communicator, whatever became of this one: the first says
  // `id`, the others have none. Until end_invitation() or the next one.
  virtual Status invite(const std::vector<std::uint32_t>& stay, std::optional<UniqueId> id) = 0;
  virtual Result<UniqueId> invited() = 0;  // waits for it, at most kJoinMax
  virtual void end_invitation() = 0;

  // NICs of this server as this process sees them now.
  virtual std::vector<NicView> nics() = 0;
  // Takes a NIC of this process out of use, losing nothing, and back.
  virtual void drain(NicId nic, bool on) = 0;

  // For tools: looks at what the endpoint knows and has recorded, with the engine held. A listener that is set must
  // be taken out again before it goes.
  virtual void inspect(FunctionRef<void(const Engine& engine, Telemetry& telemetry)> look) = 0;
};

}  // namespace r2ccl
