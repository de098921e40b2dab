// What a program may ask a communicator about itself.

#include <fmt/format.h>

#include "bindings/nccl/arguments.h"
#include "bindings/nccl/entry/entry.h"

namespace r2ccl::bindings {
namespace {

// Rank and size stay known after a failure; only a split that has not heard from the others yet does not know them.
template <class Read>
ncclResult_t ask(const char* name, ncclComm_t comm, int* out, Read read) {
  return guarded([&]() -> Outcome {
    MemberPtr member;
    if (auto bad = check_comm(name, comm, member); !bad.ok()) return bad;
    if (out == nullptr) return invalid_argument(fmt::format("{}: the place for the answer is null", name));
    if (!member->has_identity()) {
      return invalid_argument(fmt::format("{}: the communicator is still being made", name));
    }
    *out = read(*member);
    return {};
  });
}

}  // namespace
}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;

R2CCL_ENTRY(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* count) {
  return ask("ncclCommCount", comm, count, [](const Member& member) { return static_cast<int>(member.size); });
}

R2CCL_ENTRY(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank) {
  return ask("ncclCommUserRank", comm, rank, [](const Member& member) { return static_cast<int>(member.rank); });
}

R2CCL_ENTRY(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device) {
  return ask("ncclCommCuDevice", comm, device, [](const Member& member) { return member.config.device; });
}

R2CCL_ENTRY(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* async_error) {
  return guarded([&]() -> Outcome {
    MemberPtr member;
    if (auto bad = check_comm("ncclCommGetAsyncError", comm, member); !bad.ok()) return bad;
    if (async_error == nullptr) return invalid_argument("ncclCommGetAsyncError: asyncError is null");
    *async_error = member->state();
    return {};
  });
}
