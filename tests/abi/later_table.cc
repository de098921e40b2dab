// Like table.cc, but for what newer NCCLs declare. It is compiled against our own declarations
// (src/bindings/nccl/entry/later_names.h) and, if a newer NCCL's headers are at hand (list_names.py --headers keeps
// them), once more against those.

#ifdef R2CCL_LATER_NAMES
#include "bindings/nccl/entry/later_names.h"
#else
#include <nccl.h>
#include <nccl_device.h>
#endif

#include <cxxabi.h>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string>
#include <typeinfo>

namespace {

// Drops the versions that NCCL puts into names of structs, because they change with each field that is appended.
template <class T>
std::string name_of() {
  char* text = abi::__cxa_demangle(typeid(T).name(), nullptr, nullptr, nullptr);
  std::string name = std::regex_replace(text, std::regex("_v[0-9]{5}"), "");
  std::free(text);
  return name;
}

#define VALUE(name) std::printf("%s = %lld\n", #name, static_cast<long long>(name))
#define SIZE(name) std::printf("%s: %zu bytes, aligned to %zu\n", #name, sizeof(name), alignof(name))
#define FIELD(of, name) \
  std::printf("%s.%s at %zu: %s\n", #of, #name, offsetof(of, name), name_of<decltype(of::name)>().c_str())

// A name stands for one function here, though device code overloads some of them.
#define FUNCTION(type, name) std::printf("%s: %s\n", #name, name_of<decltype(static_cast<type>(&name))>().c_str())
#define SAME(name) FUNCTION(decltype(&name), name)

void constants() {
  VALUE(NCCL_SUSPEND_MEM);
  VALUE(ncclStatGpuMemSuspend);
  VALUE(ncclStatGpuMemSuspended);
  VALUE(ncclStatGpuMemPersist);
  VALUE(ncclStatGpuMemTotal);
  VALUE(NCCL_GIN_CONNECTION_NONE);
  VALUE(NCCL_GIN_CONNECTION_FULL);
  VALUE(NCCL_GIN_CONNECTION_RAIL);
  VALUE(NCCL_GIN_CONNECTION_CUSTOM_STRIDE);
  VALUE(NCCL_GIN_TYPE_NONE);
  VALUE(NCCL_GIN_TYPE_PROXY);
  VALUE(NCCL_GIN_TYPE_GDAKI);
  VALUE(NCCL_GIN_TYPE_GPI);
  VALUE(NCCL_GIN_TYPE_EFA_GDA);
  VALUE(NCCL_GIN_MAX_TYPES);
  VALUE(NCCL_CFT_TEAM_FLAT);
  VALUE(NCCL_CFT_TEAM_HIER_MULTIMEM);
  VALUE(NCCL_CFT_TEAM_HIER_LSA);
  VALUE(NCCL_ENCRYPTION_MODE_NONE);
  VALUE(NCCL_ENCRYPTION_MODE_PSK);
}

void layouts() {
  SIZE(ncclTeam);
  FIELD(ncclTeam, nRanks);
  FIELD(ncclTeam, rank);
  FIELD(ncclTeam, stride);
  SIZE(ncclMultimemHandle);
  FIELD(ncclMultimemHandle, mcBasePtr);
  SIZE(ncclWaitSignalDesc_t);
  FIELD(ncclWaitSignalDesc_t, opCnt);
  FIELD(ncclWaitSignalDesc_t, peer);
  FIELD(ncclWaitSignalDesc_t, sigIdx);
  FIELD(ncclWaitSignalDesc_t, ctx);
  SIZE(ncclCommProperties);
  FIELD(ncclCommProperties, size);
  FIELD(ncclCommProperties, magic);
  FIELD(ncclCommProperties, version);
  FIELD(ncclCommProperties, rank);
  FIELD(ncclCommProperties, nRanks);
  FIELD(ncclCommProperties, cudaDev);
  FIELD(ncclCommProperties, nvmlDev);
  FIELD(ncclCommProperties, deviceApiSupport);
  FIELD(ncclCommProperties, multimemSupport);
  FIELD(ncclCommProperties, ginType);
  FIELD(ncclCommProperties, nLsaTeams);
  FIELD(ncclCommProperties, hostRmaSupport);
  FIELD(ncclCommProperties, railedGinType);
  FIELD(ncclCommProperties, commHash);
  FIELD(ncclCommProperties, ginMinStride);
  FIELD(ncclCommProperties, ginConnectionType);
  FIELD(ncclCommProperties, ginSupport);
  FIELD(ncclCommProperties, devCommRuntimeVersionSize);
  FIELD(ncclCommProperties, cftSupport);
  FIELD(ncclCommProperties, cftMulticastSupport);
  FIELD(ncclCommProperties, cftCountedSupport);
  SIZE(ncclConfigExt_t);
  FIELD(ncclConfigExt_t, next);
  FIELD(ncclConfigExt_t, key.vendorId);
  FIELD(ncclConfigExt_t, key.optionId);
  FIELD(ncclConfigExt_t, val.raw);
  SIZE(ncclCollConfig_t);
  FIELD(ncclCollConfig_t, size);
  FIELD(ncclCollConfig_t, magic);
  FIELD(ncclCollConfig_t, version);
  FIELD(ncclCollConfig_t, ext);
  FIELD(ncclCollConfig_t, minCTAs);
  FIELD(ncclCollConfig_t, maxCTAs);
  FIELD(ncclCollConfig_t, nvlsCTAs);
  FIELD(ncclCollConfig_t, cgaClusterSize);
  FIELD(ncclCollConfig_t, algSelection);
  FIELD(ncclCollConfig_t, forceAlgSelection);
  FIELD(ncclCollConfig_t, CTAPolicy);
  FIELD(ncclCollConfig_t, userProfilerTag);
  FIELD(ncclCollConfig_t, launchCompletionEvent);
  SIZE(ncclEncryptionConfig_t);
  FIELD(ncclEncryptionConfig_t, size);
  FIELD(ncclEncryptionConfig_t, magic);
  FIELD(ncclEncryptionConfig_t, version);
  FIELD(ncclEncryptionConfig_t, mode);
  FIELD(ncclEncryptionConfig_t, psk);
}

void device_interface() {
  SAME(ncclDevCommCreate);
  SAME(ncclDevCommDestroy);
  SAME(ncclGinBarrierCreateRequirement);
  SAME(ncclLsaBarrierCreateRequirement);
  SAME(ncclLLA2ACreateRequirement);
  SAME(ncclLLA2ACalcSlots);
  FUNCTION(ncclTeam(*)(ncclComm_t), ncclTeamWorld);
  FUNCTION(ncclTeam(*)(ncclComm_t), ncclTeamLsa);
  FUNCTION(ncclTeam(*)(ncclComm_t), ncclTeamRail);
  FUNCTION(int (*)(ncclComm_t, ncclTeam, int), ncclTeamRankToWorld);
  FUNCTION(int (*)(ncclComm_t, ncclTeam, int), ncclTeamRankToLsa);
  FUNCTION(ncclTeam(*)(ncclComm_t, ncclCftTeamMode_t), ncclTeamCft);
  FUNCTION(ncclTeam(*)(ncclComm_t), ncclTeamCftMultimem);
  SAME(ncclCommQueryProperties);
  SAME(ncclGetLsaMultimemDevicePointer);
  SAME(ncclGetMultimemDevicePointer);
  SAME(ncclGetLsaDevicePointer);
  SAME(ncclGetPeerDevicePointer);
  SAME(ncclGetMultimemDeviceLeInfo);
  SAME(ncclGetCftDeviceLeInfo);
  SAME(ncclGetPeerDeviceLeInfo);
}

void functions() {
#define TWINS(name) SAME(name), SAME(p##name)
  TWINS(ncclCommGetUniqueId);
  TWINS(ncclCommGrow);
  TWINS(ncclPutSignal);
  TWINS(ncclSignal);
  TWINS(ncclWaitSignal);
  TWINS(ncclWinGetUserPtr);
  TWINS(ncclCommSuspend);
  TWINS(ncclCommResume);
  TWINS(ncclCommMemStats);
  TWINS(ncclParamBind);
  TWINS(ncclParamGetI8);
  TWINS(ncclParamGetI16);
  TWINS(ncclParamGetI32);
  TWINS(ncclParamGetI64);
  TWINS(ncclParamGetU8);
  TWINS(ncclParamGetU16);
  TWINS(ncclParamGetU32);
  TWINS(ncclParamGetU64);
  TWINS(ncclParamGetStr);
  TWINS(ncclParamGet);
  TWINS(ncclParamGetParameter);
  TWINS(ncclParamGetAllParameterKeys);
  TWINS(ncclParamDumpAll);
  TWINS(ncclAllReduceConfig);
  TWINS(ncclBroadcastConfig);
  TWINS(ncclReduceConfig);
  TWINS(ncclAllGatherConfig);
  TWINS(ncclReduceScatterConfig);
  TWINS(ncclAlltoAllConfig);
  TWINS(ncclGatherConfig);
  TWINS(ncclScatterConfig);
  TWINS(ncclSetEncryption);
}

}  // namespace

int main() {
  constants();
  layouts();
  device_interface();
  functions();
}
