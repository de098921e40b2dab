// Names of newer NCCLs that have no meaning while all memory is host memory: they are there so that programs load,
// and each says why it does nothing and what to do instead.

#include "bindings/nccl/entry/later_names.h"

#include <fmt/format.h>

#include "bindings/nccl/entry/entry.h"

namespace r2ccl::bindings {
namespace {

ncclResult_t refuse_later(const char* name, const char* version, const char* why_and_what_to_do) {
  return guarded([&] { return invalid_usage(fmt::format("{} (of NCCL {}): {}", name, version, why_and_what_to_do)); });
}

constexpr const char* kCannotGrow =
    "ranks can not be added to a communicator; make a new one of all ranks with ncclGetUniqueId and ncclCommInitRank";
constexpr const char* kNothingOneSided =
    "writing into another rank's window needs device memory; use ncclSend and ncclRecv";
constexpr const char* kNoWindows =
    "there are no windows on host memory, ncclCommWindowRegister refuses them; use the buffer and collectives on it";
constexpr const char* kNothingToSuspend =
    "a communicator on host memory holds no device memory that could be given back; destroy it to free what it has";
constexpr const char* kNoKernels =
    "kernels can not reach the network of a communicator on host memory; call collectives from the host";
constexpr ncclTeam kNobody = {0, -1, 0};  // for who can not answer with an error

}  // namespace
}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;

R2CCL_ENTRY(ncclResult_t, ncclCommGetUniqueId, ncclComm_t, ncclUniqueId*) {
  return refuse_later("ncclCommGetUniqueId", "2.29", kCannotGrow);
}

R2CCL_ENTRY(ncclResult_t, ncclCommGrow, ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*) {
  return refuse_later("ncclCommGrow", "2.29", kCannotGrow);
}

R2CCL_ENTRY(ncclResult_t, ncclPutSignal, const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int, int,
            unsigned int, ncclComm_t, cudaStream_t) {
  return refuse_later("ncclPutSignal", "2.29", kNothingOneSided);
}

R2CCL_ENTRY(ncclResult_t, ncclSignal, int, int, int, unsigned int, ncclComm_t, cudaStream_t) {
  return refuse_later("ncclSignal", "2.29", kNothingOneSided);
}

R2CCL_ENTRY(ncclResult_t, ncclWaitSignal, int, ncclWaitSignalDesc_t*, ncclComm_t, cudaStream_t) {
  return refuse_later("ncclWaitSignal", "2.29", kNothingOneSided);
}

R2CCL_ENTRY(ncclResult_t, ncclWinGetUserPtr, ncclComm_t, ncclWindow_t, void**) {
  return refuse_later("ncclWinGetUserPtr", "2.29", kNoWindows);
}

R2CCL_ENTRY(ncclResult_t, ncclGetLsaMultimemDevicePointer, ncclWindow_t, size_t, void**) {
  return refuse_later("ncclGetLsaMultimemDevicePointer", "2.29", kNoWindows);
}

R2CCL_ENTRY(ncclResult_t, ncclGetMultimemDevicePointer, ncclWindow_t, size_t, ncclMultimemHandle, void**) {
  return refuse_later("ncclGetMultimemDevicePointer", "2.29", kNoWindows);
}

R2CCL_ENTRY(ncclResult_t, ncclGetLsaDevicePointer, ncclWindow_t, size_t, int, void**) {
  return refuse_later("ncclGetLsaDevicePointer", "2.29", kNoWindows);
}

R2CCL_ENTRY(ncclResult_t, ncclGetPeerDevicePointer, ncclWindow_t, size_t, int, void**) {
  return refuse_later("ncclGetPeerDevicePointer", "2.29", kNoWindows);
}

R2CCL_ENTRY(ncclResult_t, ncclCommSuspend, ncclComm_t, int) {
  return refuse_later("ncclCommSuspend", "2.29", kNothingToSuspend);
}

R2CCL_ENTRY(ncclResult_t, ncclCommResume, ncclComm_t) {
  return refuse_later("ncclCommResume", "2.29", kNothingToSuspend);
}

R2CCL_ENTRY(ncclResult_t, ncclGinInboxA2ACreateRequirement, ncclTeam, int, int, ncclGinInboxA2AHandle*,
            ncclDevResourceRequirements*) {
  return refuse_later("ncclGinInboxA2ACreateRequirement", "2.29", kNoKernels);
}

R2CCL_ENTRY(ncclResult_t, ncclGinOutboxCreateRequirement, int, int, ncclGinOutboxHandle*,
            ncclDevResourceRequirements*) {
  return refuse_later("ncclGinOutboxCreateRequirement", "2.29", kNoKernels);
}

R2CCL_ENTRY(ncclResult_t, ncclGetMultimemDeviceLeInfo, ncclWindow_t, size_t, ncclCftLeId*, size_t*) {
  return refuse_later("ncclGetMultimemDeviceLeInfo", "2.31", kNoWindows);
}

R2CCL_ENTRY(ncclResult_t, ncclGetCftDeviceLeInfo, ncclWindow_t, size_t, int, ncclTeam, ncclCftLeId*, size_t*) {
  return refuse_later("ncclGetCftDeviceLeInfo", "2.31", kNoWindows);
}

R2CCL_ENTRY(ncclResult_t, ncclGetPeerDeviceLeInfo, ncclWindow_t, size_t, int, ncclCftLeId*, size_t*) {
  return refuse_later("ncclGetPeerDeviceLeInfo", "2.31", kNoWindows);
}

R2CCL_ENTRY(ncclTeam, ncclTeamCft, ncclComm_t, ncclCftTeamMode_t) {
  refuse_later("ncclTeamCft", "2.31", kNoKernels);
  return kNobody;
}

R2CCL_ENTRY(ncclTeam, ncclTeamCftMultimem, ncclComm_t) {
  refuse_later("ncclTeamCftMultimem", "2.31", kNoKernels);
  return kNobody;
}
