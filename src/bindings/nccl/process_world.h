#pragma once
// The World behind the C interface: one per operating-system process, made by the first call that needs it and kept until exit, because
// other threads may still be inside it when exit begins.

#include "base/result.h"
#include "process/world.h"

namespace r2ccl::bindings {

// The environment is read here, once. A bad setting fails every call, with its sentence.
Result<World*> world();
// Whether NCCL_COMM_ID is set: where rank 0 hosts the communicators that are made from ncclGetUniqueId(). One that is
// no host:port, or a host that can not be looked up, fails world().
bool has_fixed_root();

// For tests, before the first call: this one is it, and the environment is not read. It is kept until exit.
void stand_in_for_world(World* world);

}  // namespace r2ccl::bindings
