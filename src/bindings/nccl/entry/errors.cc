#include "bindings/nccl/entry/entry.h"
#include "bindings/nccl/entry/outcome.h"
#include "bindings/nccl/member.h"

namespace r2ccl::bindings {

namespace {
std::string& last_error() {
  thread_local std::string what;
  return what;
}
}  // namespace

void set_last_error(const std::string& what) {
  last_error() = what;
}

Outcome to_outcome(const Error& error, ncclResult_t misuse) {
  switch (error.fault) {
    case Fault::kMisuse:
      return {misuse, error.what};
    case Fault::kCallsDiffer:
      return {ncclInvalidUsage, error.what};
    case Fault::kPeerDown:
    case Fault::kAborted:
    case Fault::kGroupEnded:
      return {ncclRemoteError, error.what};
    case Fault::kPathDown:
    case Fault::kBusy:
      return {ncclSystemError, error.what};
    case Fault::kBug:
      break;
  }
  return {ncclInternalError, error.what};
}

Outcome to_outcome(const Status& status, ncclResult_t misuse) {
  return status ? Outcome{} : to_outcome(status.error(), misuse);
}

}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;

R2CCL_ENTRY(const char*, ncclGetErrorString, ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "a CUDA call failed; ncclGetLastError says which";
    case ncclSystemError:
      return "the operating system or the network failed; ncclGetLastError says how";
    case ncclInternalError:
      return "a bug of the library; ncclGetLastError says where";
    case ncclInvalidArgument:
      return "an argument is invalid; ncclGetLastError says which";
    case ncclInvalidUsage:
      return "this call is not possible here; ncclGetLastError says why";
    case ncclRemoteError:
      return "another rank failed or is gone; ncclGetLastError says which";
    case ncclInProgress:
      return "in progress";
    case ncclNumResults:
      break;
  }
  return "unknown result code";
}

R2CCL_ENTRY(const char*, ncclGetLastError, ncclComm_t comm) {
  try {
    // The communicator's own error may be of another thread; it is copied so that the pointer stays good.
    if (const auto member = find_member(comm)) {
      std::string own = member->last_error();
      if (!own.empty()) set_last_error(own);
    }
    return last_error().c_str();
  } catch (...) {
    return "";
  }
}

// Settings are read once; there is nothing to reset.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
R2CCL_ENTRY(void, ncclResetDebugInit, void) {}
#pragma GCC diagnostic pop

R2CCL_ENTRY(ncclResult_t, ncclGetVersion, int* version) {
  return guarded([&]() -> Outcome {
    if (version == nullptr) return invalid_argument("ncclGetVersion: version is null");
    *version = NCCL_VERSION_CODE;
    return {};
  });
}
