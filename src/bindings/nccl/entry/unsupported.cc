// What has no meaning while all memory is host memory. Each says so and does nothing: a program that goes on after a
// success that was none would fail later, and less clearly.

#include <fmt/format.h>
#include <r2ccl.h>

#include "bindings/nccl/arguments.h"
#include "bindings/nccl/entry/entry.h"
#include "bindings/nccl/entry/later_names.h"

namespace r2ccl::bindings {
namespace {

ncclResult_t refuse(const char* name, const char* why) {
  return guarded([&] { return invalid_usage(fmt::format("{}: {}", name, why)); });
}
constexpr const char* kNoDevice = "kernels can not reach the network of a communicator on host memory";
constexpr const char* kNoWindow = "windows need device memory that peers can reach";

}  // namespace
}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;

R2CCL_ENTRY(ncclResult_t, ncclCommWindowRegister, ncclComm_t, void*, size_t, ncclWindow_t*, int) {
  return refuse("ncclCommWindowRegister", kNoWindow);
}

R2CCL_ENTRY(ncclResult_t, ncclCommWindowDeregister, ncclComm_t, ncclWindow_t) {
  return refuse("ncclCommWindowDeregister", kNoWindow);
}

// Host functions of NCCL's device interface. Programs that link them must start.
R2CCL_ENTRY(ncclResult_t, ncclDevCommCreate, ncclComm_t, const ncclDevCommRequirements*, ncclDevComm*) {
  return refuse("ncclDevCommCreate", kNoDevice);
}

R2CCL_ENTRY(ncclResult_t, ncclDevCommDestroy, ncclComm_t, const ncclDevComm*) {
  return refuse("ncclDevCommDestroy", kNoDevice);
}

R2CCL_ENTRY(ncclResult_t, ncclGinBarrierCreateRequirement, ncclComm_t, ncclTeam, int, ncclGinBarrierHandle*,
            ncclDevResourceRequirements*) {
  return refuse("ncclGinBarrierCreateRequirement", kNoDevice);
}

R2CCL_ENTRY(ncclResult_t, ncclLsaBarrierCreateRequirement, ncclTeam, int, ncclLsaBarrierHandle*,
            ncclDevResourceRequirements*) {
  return refuse("ncclLsaBarrierCreateRequirement", kNoDevice);
}

R2CCL_ENTRY(ncclResult_t, ncclLLA2ACreateRequirement, int, int, ncclLLA2AHandle*, ncclDevResourceRequirements*) {
  return refuse("ncclLLA2ACreateRequirement", kNoDevice);
}

// These can not answer with an error. No slots and teams without ranks are what a program can notice.
R2CCL_ENTRY(int, ncclLLA2ACalcSlots, int, int) {
  refuse("ncclLLA2ACalcSlots", kNoDevice);
  return 0;
}

R2CCL_ENTRY(ncclTeam, ncclTeamWorld, ncclComm_t) {
  refuse("ncclTeamWorld", kNoDevice);
  return {0, -1, 0};
}

R2CCL_ENTRY(ncclTeam, ncclTeamLsa, ncclComm_t) {
  refuse("ncclTeamLsa", kNoDevice);
  return {0, -1, 0};
}

R2CCL_ENTRY(ncclTeam, ncclTeamRail, ncclComm_t) {
  refuse("ncclTeamRail", kNoDevice);
  return {0, -1, 0};
}

R2CCL_ENTRY(int, ncclTeamRankToWorld, ncclComm_t, ncclTeam, int) {
  refuse("ncclTeamRankToWorld", kNoDevice);
  return -1;
}

R2CCL_ENTRY(int, ncclTeamRankToLsa, ncclComm_t, ncclTeam, int) {
  refuse("ncclTeamRankToLsa", kNoDevice);
  return -1;
}
