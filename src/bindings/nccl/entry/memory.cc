// Host memory, and buffers that will be used again.

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <set>

#include "bindings/nccl/arguments.h"
#include "bindings/nccl/entry/entry.h"

namespace r2ccl::bindings {
namespace {

constexpr std::size_t kPage = 4096;

// What was handed out, so that a foreign pointer is refused instead of freed.
struct Allocations {
  std::mutex mutex;
  std::set<void*> live;
};
Allocations& allocations() {
  static auto* const kAllocations = new Allocations;
  return *kAllocations;
}

}  // namespace
}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;

R2CCL_ENTRY(ncclResult_t, ncclMemAlloc, void** ptr, size_t size) {
  return guarded([&]() -> Outcome {
    if (ptr == nullptr) return invalid_argument("ncclMemAlloc: ptr is null");
    *ptr = nullptr;
    if (size == 0) return {};
    if (size > SIZE_MAX - kPage) return invalid_argument(fmt::format("ncclMemAlloc: {} bytes are too many", size));
    void* memory = std::aligned_alloc(kPage, (size + kPage - 1) / kPage * kPage);
    if (memory == nullptr) return {ncclSystemError, fmt::format("ncclMemAlloc: no memory for {} bytes", size)};
    const std::lock_guard lock(allocations().mutex);
    allocations().live.insert(memory);
    *ptr = memory;
    return {};
  });
}

R2CCL_ENTRY(ncclResult_t, ncclMemFree, void* ptr) {
  return guarded([&]() -> Outcome {
    if (ptr == nullptr) return {};
    {
      const std::lock_guard lock(allocations().mutex);
      if (allocations().live.erase(ptr) == 0) return invalid_argument("ncclMemFree: ptr is not one of ncclMemAlloc");
    }
    std::free(ptr);
    return {};
  });
}

// Host memory needs no preparation; the handle is kept so that its misuse is noticed.
R2CCL_ENTRY(ncclResult_t, ncclCommRegister, const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return guarded([&]() -> Outcome {
    MemberPtr member;
    if (auto bad = check_comm("ncclCommRegister", comm, member); !bad.ok()) return bad;
    if (auto bad = member->ready("ncclCommRegister"); !bad.ok()) return bad;
    if (handle == nullptr) return invalid_argument("ncclCommRegister: handle is null");
    if (buff == nullptr || size == 0) return invalid_argument("ncclCommRegister: the buffer is empty");
    *handle = member->add_buffer(buff, size);
    return {};
  });
}

R2CCL_ENTRY(ncclResult_t, ncclCommDeregister, const ncclComm_t comm, void* handle) {
  return guarded([&]() -> Outcome {
    MemberPtr member;
    if (auto bad = check_comm("ncclCommDeregister", comm, member); !bad.ok()) return bad;
    if (!member->remove_buffer(handle)) {
      return invalid_argument("ncclCommDeregister: handle is not one of ncclCommRegister on this communicator");
    }
    return {};
  });
}
