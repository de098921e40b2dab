#pragma once
// The communicators of one operating-system process: an interface, for the same reason as Comm; make_world() makes
// the one with NICs.
//
// Threads    Any, at the same time.
// Failure    Everything comes back as a Result with one sentence.

#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "comm/comm_config.h"
#include "control/unique_id.h"
#include "env/settings.h"
#include "process/comm.h"
#include "topology/discover/meeting_place.h"

namespace r2ccl {

class World {
 public:
  World() = default;
  virtual ~World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // A new job's id; this process hosts its root until all ranks have left.
  virtual Result<UniqueId> make_id() = 0;
  // The same at the place (NCCL_COMM_ID, MASTER_ADDR), which there must be: rank 0 hosts there, all derive the same
  // secret from the place's port and R2CCL_SECRET; not from its address, which may differ from server to server.
  // Without R2CCL_SECRET whoever reaches the place may join; the host says so in its log.
  virtual Result<UniqueId> fixed_id(bool host) = 0;
  // Returns at once; see Comm::wait_joined(). An id of the place, whoever made it, is met where this process knows the
  // place.
  virtual Result<std::shared_ptr<Comm>> join(const UniqueId& id, std::uint32_t rank, std::uint32_t size,
                                             const CommConfig& config) = 0;
  virtual const Settings& settings() const = 0;
};

// Nothing is opened before the first id or communicator. `place`: where fixed_id() meets.
std::unique_ptr<World> make_world(const Settings& settings, std::optional<MeetingPlace> place = std::nullopt);

}  // namespace r2ccl
