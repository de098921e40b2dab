#pragma once
// The World behind the C interface: one per operating-system process, made by the first call that needs it and kept until exit, because
// other threads may still be inside it when exit begins.

#include <optional>

#include "base/address.h"
#include "base/result.h"
#include "comm/world.h"

namespace r2ccl::api {

// The environment is read here, once. A bad setting fails every call, with its sentence.
Result<World*> world();
// NCCL_COMM_ID: where rank 0 hosts the communicators that are made from ncclGetUniqueId(). A bad address fails world().
std::optional<Address> fixed_root();

}  // namespace r2ccl::api
