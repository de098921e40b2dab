#pragma once
// The communicators of one operating-system process, with blocking calls: what the NCCL API and the tools stand on.
//
// Endpoints. Every rank a process holds of one communicator needs an endpoint of its own: an Engine with its driver thread. Endpoint
// k serves the k-th local rank of every communicator, so a process with one rank has one endpoint, one progress thread and, to each
// peer, one session that all its communicators share.
//
// Threads    Any, at the same time. A caller that waits drives its endpoint itself (runtime/threads/driver.h).
// Failure    Everything comes back as a Result with one sentence.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/agreement/nic_views.h"
#include "comm/call.h"
#include "comm/communicator.h"
#include "control/unique_id.h"
#include "env/settings.h"
#include "topology/discover/meeting_place.h"
#include "topology/nic.h"

namespace r2ccl {

class World;

// One rank's end of a communicator.
class Comm final {
 public:
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  std::uint32_t rank() const;
  std::uint32_t size() const;
  // kJoining until the others are there; kFailed with error().
  CommState state();
  Error error();
  // Waits until it has joined, at most World::kJoinMax.
  Status wait_joined();

  // Validates and queues; the ticket is polled or waited for. All of one submit() is one group.
  Result<TicketPtr> submit(std::vector<Call> calls);
  bool done(const TicketPtr& ticket);
  bool wait_for(const TicketPtr& ticket, Duration most);  // true: done
  Status wait(const TicketPtr& ticket);
  Status run(const Call& call);  // submit and wait

  PlanInUse plan_in_use();
  Status finalize();  // waits for everything submitted, at every rank
  void abort(const std::string& why);
  // How long these calls would take by the cost model, in seconds (communicator.h).
  Result<double> estimate(const std::vector<Call>& calls);

  // The ranks `stay` of this one hear of the id of another communicator, whatever became of this one: the first says `id`, the others have
  // none. Until end_invitation() or the next one.
  Status invite(const std::vector<std::uint32_t>& stay, std::optional<UniqueId> id);
  Result<UniqueId> invited();  // waits for it, at most World::kJoinMax
  void end_invitation();

  // NICs of this server as this process sees them now.
  std::vector<NicView> nics();
  // Takes a NIC of this process out of use, losing nothing, and back.
  void drain(NicId nic, bool on);

  // For tools: looks at what the endpoint knows and has recorded, with the engine held. A listener that is set must be taken out
  // again before it goes.
  void inspect(const std::function<void(const Engine& engine, Telemetry& telemetry)>& look);

 private:
  friend class World;
  struct Impl;
  explicit Comm(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class World final {
 public:
  static constexpr Duration kJoinMax = 600s;

  // Nothing is opened before the first id or communicator. `place`: where fixed_id() meets.
  explicit World(const Settings& settings, std::optional<MeetingPlace> place = std::nullopt);
  ~World();

  // A new job's id; this process hosts its root until all ranks have left.
  Result<UniqueId> make_id();
  // The same at the place (NCCL_COMM_ID, MASTER_ADDR), which there must be: rank 0 hosts there, all derive the same
  // secret from the place's port and R2CCL_SECRET; not from its address, which may differ from server to server.
  // Without R2CCL_SECRET whoever reaches the place may join; the host says so in its log.
  Result<UniqueId> fixed_id(bool host);

  // Returns at once; see Comm::wait_joined(). An id of the place, whoever made it, is met where this process knows the
  // place.
  Result<std::shared_ptr<Comm>> join(const UniqueId& id, std::uint32_t rank, std::uint32_t size,
                                     const CommConfig& config);
  const Settings& settings() const;

 private:
  friend class Comm;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// Several at once, from one thread, also on several endpoints. The first error, if any, once all are done.
struct Waiting {
  std::shared_ptr<Comm> comm;
  TicketPtr ticket;
};
Status wait_all(std::span<const Waiting> waiting);

}  // namespace r2ccl
