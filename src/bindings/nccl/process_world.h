#pragma once
// The World behind the C interface: one per operating-system process, made by the first call that needs it and kept
// until exit, because other threads may still be inside it when exit begins.

#include <memory>
#include <optional>

#include "base/result.h"
#include "process/world.h"

namespace r2ccl::bindings {

// The environment is read here, once. A bad setting fails every call, with its sentence.
Result<World*> world();
// Whether NCCL_COMM_ID is set: where rank 0 hosts the communicators that are made from ncclGetUniqueId(). One that is
// no host:port, or a host that can not be looked up, fails world().
bool has_fixed_root();

// For tests, before the first call: makes the World in place of make_world().
using WorldMaker = std::unique_ptr<World> (*)(const Settings& settings, std::optional<MeetingPlace> place);
void set_world_maker(WorldMaker maker);

}  // namespace r2ccl::bindings
