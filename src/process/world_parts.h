#pragma once
// What the communicators of a process share. Every rank that a process holds of one communicator needs an endpoint of
// its own: an Engine with its driver thread. Endpoint k serves the k-th local rank of every communicator, so a
// process with one rank has one endpoint, one progress thread and, to each peer, one session that all its
// communicators share.
//
// Threads  Any for endpoint() and placed_id(); the rest as it says.

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/agreement/plans.h"
#include "control/unique_id.h"
#include "device/cpu/cpu_device.h"
#include "env/secret.h"
#include "env/settings.h"
#include "process/stats.h"
#include "process/worker_plans.h"
#include "runtime/threads/process.h"
#include "runtime/threads/worker.h"
#include "topology/discover/meeting_place.h"

namespace r2ccl {

// Its communicators go before it does, and they before the engine.
struct RankEndpoint {
  std::unique_ptr<Process> process;
  StatsWriter stats;
  WorkerPlans plans;
  bool loss_decided = false;  // process/seed_loss.h; with the engine held
};

// It goes with the last of the communicators.
struct WorldParts {
  WorldParts(const Settings& values, std::optional<MeetingPlace> meeting_place)
      : settings(values), place(std::move(meeting_place)) {}

  // Made when it is asked for the first time.
  Result<std::shared_ptr<RankEndpoint>> endpoint(std::size_t number);
  UniqueId placed_id() const;  // of the place, as this process knows it

  const Settings settings;
  const std::optional<MeetingPlace> place;
  const CpuDevice device;
  std::mutex mutex;  // guards the next two
  std::vector<std::shared_ptr<RankEndpoint>> endpoints;
  std::map<Secret, std::uint32_t> local_ranks;  // that joined so far, by job
  Worker worker;  // makes plans; the last member, because what it does wakes drivers of endpoints
};

}  // namespace r2ccl
