#pragma once
// What the headers of NCCL declare and include/nccl.h, which stays that of 2.28.9, does not: the host functions of
// the device interface, and everything newer. libnccl.so.2 exports all of it, because a program that was built
// against a newer header does not even load where a name is missing. Programs take these declarations from that
// header; here are our own, for defining and testing the functions.
//
// Types are as the newest version has them; each struct only grew since it first appeared (but for one field),
// and says its size. tests/abi/later_table.cc compares all of it with NCCL's headers.

#include <nccl.h>
#include <stddef.h>
#include <stdint.h>

// NOLINTBEGIN(readability-identifier-naming): the names are NCCL's.
extern "C" {

#define R2CCL_TWINS(result, name, ...) \
  result name(__VA_ARGS__);            \
  result p##name(__VA_ARGS__)

// ---- Host functions of the device interface, 2.28 -------------------------------------------------------------------

struct ncclDevComm;
struct ncclDevCommRequirements;
struct ncclDevResourceRequirements;
struct ncclGinBarrierHandle;
struct ncclLLA2AHandle;
struct ncclLsaBarrierHandle;
struct ncclTeam {
  int nRanks;
  int rank;
  int stride;
};

R2CCL_TWINS(ncclResult_t, ncclDevCommCreate, ncclComm_t, const ncclDevCommRequirements*, ncclDevComm*);
R2CCL_TWINS(ncclResult_t, ncclDevCommDestroy, ncclComm_t, const ncclDevComm*);
R2CCL_TWINS(ncclResult_t, ncclGinBarrierCreateRequirement, ncclComm_t, ncclTeam, int, ncclGinBarrierHandle*,
            ncclDevResourceRequirements*);
R2CCL_TWINS(ncclResult_t, ncclLsaBarrierCreateRequirement, ncclTeam, int, ncclLsaBarrierHandle*,
            ncclDevResourceRequirements*);
R2CCL_TWINS(ncclResult_t, ncclLLA2ACreateRequirement, int, int, ncclLLA2AHandle*, ncclDevResourceRequirements*);
R2CCL_TWINS(int, ncclLLA2ACalcSlots, int, int);
R2CCL_TWINS(ncclTeam, ncclTeamWorld, ncclComm_t);
R2CCL_TWINS(ncclTeam, ncclTeamLsa, ncclComm_t);
R2CCL_TWINS(ncclTeam, ncclTeamRail, ncclComm_t);
R2CCL_TWINS(int, ncclTeamRankToWorld, ncclComm_t, ncclTeam, int);
R2CCL_TWINS(int, ncclTeamRankToLsa, ncclComm_t, ncclTeam, int);

// ---- 2.29 -----------------------------------------------------------------------------------------------------------

R2CCL_TWINS(ncclResult_t, ncclCommGetUniqueId, ncclComm_t comm, ncclUniqueId* uniqueId);
R2CCL_TWINS(ncclResult_t, ncclCommGrow, ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
            ncclComm_t* newcomm, ncclConfig_t* config);

typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

R2CCL_TWINS(ncclResult_t, ncclPutSignal, const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
            ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
            cudaStream_t stream);
R2CCL_TWINS(ncclResult_t, ncclSignal, int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
            cudaStream_t stream);
R2CCL_TWINS(ncclResult_t, ncclWaitSignal, int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
            cudaStream_t stream);

struct ncclMultimemHandle {
  void* mcBasePtr;
};
R2CCL_TWINS(ncclResult_t, ncclWinGetUserPtr, ncclComm_t comm, ncclWindow_t win, void** outUserPtr);
R2CCL_TWINS(ncclResult_t, ncclGetLsaMultimemDevicePointer, ncclWindow_t window, size_t offset, void** outPtr);
R2CCL_TWINS(ncclResult_t, ncclGetMultimemDevicePointer, ncclWindow_t window, size_t offset, ncclMultimemHandle multimem,
            void** outPtr);
R2CCL_TWINS(ncclResult_t, ncclGetLsaDevicePointer, ncclWindow_t window, size_t offset, int lsaRank, void** outPtr);
R2CCL_TWINS(ncclResult_t, ncclGetPeerDevicePointer, ncclWindow_t window, size_t offset, int peer, void** outPtr);

typedef enum {
  NCCL_GIN_CONNECTION_NONE = 0,
  NCCL_GIN_CONNECTION_FULL = 1,
  NCCL_GIN_CONNECTION_RAIL = 2,
  NCCL_GIN_CONNECTION_CUSTOM_STRIDE = 3
} ncclGinConnectionType_t;
typedef enum {
  NCCL_GIN_TYPE_NONE = 0,
  NCCL_GIN_TYPE_PROXY = 2,
  NCCL_GIN_TYPE_GDAKI = 3,
  NCCL_GIN_TYPE_GPI = 4,
  NCCL_GIN_TYPE_EFA_GDA = 5,
  NCCL_GIN_MAX_TYPES = 6
} ncclGinType_t;
// Up to 2.29.3 ginType had one byte; for who answers NONE there is no difference.
struct ncclCommProperties {
  size_t size;           // the first three are the initializer's
  unsigned int magic;    //
  unsigned int version;  //
  int rank;
  int nRanks;
  int cudaDev;
  int nvmlDev;
  bool deviceApiSupport;
  bool multimemSupport;
  ncclGinType_t ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  ncclGinType_t railedGinType;
  uint64_t commHash;
  int ginMinStride;
  ncclGinConnectionType_t ginConnectionType;
  bool ginSupport[64];
  size_t devCommRuntimeVersionSize;
  bool cftSupport;
  bool cftMulticastSupport;
  bool cftCountedSupport;
};
R2CCL_TWINS(ncclResult_t, ncclCommQueryProperties, ncclComm_t comm, ncclCommProperties* props);

#define NCCL_SUSPEND_MEM 0x01
R2CCL_TWINS(ncclResult_t, ncclCommSuspend, ncclComm_t comm, int flags);
R2CCL_TWINS(ncclResult_t, ncclCommResume, ncclComm_t comm);

typedef enum {
  ncclStatGpuMemSuspend = 0,
  ncclStatGpuMemSuspended = 1,
  ncclStatGpuMemPersist = 2,
  ncclStatGpuMemTotal = 3
} ncclCommMemStat_t;
R2CCL_TWINS(ncclResult_t, ncclCommMemStats, ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value);

struct ncclGinInboxA2AHandle;
struct ncclGinOutboxHandle;
R2CCL_TWINS(ncclResult_t, ncclGinInboxA2ACreateRequirement, ncclTeam peers, int nBlocks, int size_log2,
            ncclGinInboxA2AHandle* outHandle, ncclDevResourceRequirements* outReq);
R2CCL_TWINS(ncclResult_t, ncclGinOutboxCreateRequirement, int nBlocks, int size_log2, ncclGinOutboxHandle* outHandle,
            ncclDevResourceRequirements* outReq);

// ---- 2.30: settings, read by their names ----------------------------------------------------------------------------

typedef struct ncclParamHandle* ncclParamHandle_t;
R2CCL_TWINS(ncclResult_t, ncclParamBind, ncclParamHandle_t* out, const char* key);
R2CCL_TWINS(ncclResult_t, ncclParamGetI8, ncclParamHandle_t h, int8_t* out);
R2CCL_TWINS(ncclResult_t, ncclParamGetI16, ncclParamHandle_t h, int16_t* out);
R2CCL_TWINS(ncclResult_t, ncclParamGetI32, ncclParamHandle_t h, int32_t* out);
R2CCL_TWINS(ncclResult_t, ncclParamGetI64, ncclParamHandle_t h, int64_t* out);
R2CCL_TWINS(ncclResult_t, ncclParamGetU8, ncclParamHandle_t h, uint8_t* out);
R2CCL_TWINS(ncclResult_t, ncclParamGetU16, ncclParamHandle_t h, uint16_t* out);
R2CCL_TWINS(ncclResult_t, ncclParamGetU32, ncclParamHandle_t h, uint32_t* out);
R2CCL_TWINS(ncclResult_t, ncclParamGetU64, ncclParamHandle_t h, uint64_t* out);
R2CCL_TWINS(ncclResult_t, ncclParamGetStr, ncclParamHandle_t h, const char** out);
R2CCL_TWINS(ncclResult_t, ncclParamGet, ncclParamHandle_t h, void* out, int maxLen, int* len);
R2CCL_TWINS(ncclResult_t, ncclParamGetParameter, const char* key, const char** value, int* valueLen);
R2CCL_TWINS(ncclResult_t, ncclParamGetAllParameterKeys, const char*** table, int* tableLen);
R2CCL_TWINS(void, ncclParamDumpAll, void);

// ---- 2.31: collectives with wishes for one call ---------------------------------------------------------------------

typedef struct ncclConfigExt {
  struct ncclConfigExt* next;
  struct {
    int vendorId;
    int optionId;
  } key;
  union {
    int i;
    const char* s;
    void* raw;
  } val;
} ncclConfigExt_t;

typedef struct ncclCollConfig_v23200 {
  size_t size;           // the first three are the initializer's
  unsigned int magic;    //
  unsigned int version;  //
  ncclConfigExt_t* ext;
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char* algSelection;
  int forceAlgSelection;
  int CTAPolicy;
  uint64_t userProfilerTag;
  struct CUevent_st* launchCompletionEvent;  // since 2.32
} ncclCollConfig_t;

R2CCL_TWINS(ncclResult_t, ncclAllReduceConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config);
R2CCL_TWINS(ncclResult_t, ncclBroadcastConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
R2CCL_TWINS(ncclResult_t, ncclReduceConfig, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
R2CCL_TWINS(ncclResult_t, ncclAllGatherConfig, const void* sendbuff, void* recvbuff, size_t sendcount,
            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
R2CCL_TWINS(ncclResult_t, ncclReduceScatterConfig, const void* sendbuff, void* recvbuff, size_t recvcount,
            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config);
R2CCL_TWINS(ncclResult_t, ncclAlltoAllConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
R2CCL_TWINS(ncclResult_t, ncclGatherConfig, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
R2CCL_TWINS(ncclResult_t, ncclScatterConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);

typedef uint32_t ncclCftLeId;
typedef enum { NCCL_CFT_TEAM_FLAT = 0, NCCL_CFT_TEAM_HIER_MULTIMEM = 1, NCCL_CFT_TEAM_HIER_LSA = 2 } ncclCftTeamMode_t;
R2CCL_TWINS(ncclTeam, ncclTeamCft, ncclComm_t comm, ncclCftTeamMode_t mode);
R2CCL_TWINS(ncclTeam, ncclTeamCftMultimem, ncclComm_t comm);
R2CCL_TWINS(ncclResult_t, ncclGetMultimemDeviceLeInfo, ncclWindow_t window, size_t offset, ncclCftLeId* leId,
            size_t* leOffset);
R2CCL_TWINS(ncclResult_t, ncclGetCftDeviceLeInfo, ncclWindow_t window, size_t offset, int peerCft, ncclTeam cftTeam,
            ncclCftLeId* leId, size_t* leOffset);
R2CCL_TWINS(ncclResult_t, ncclGetPeerDeviceLeInfo, ncclWindow_t window, size_t offset, int peerWorld, ncclCftLeId* leId,
            size_t* leOffset);

// ---- 2.32 -----------------------------------------------------------------------------------------------------------

typedef enum { NCCL_ENCRYPTION_MODE_NONE = 0, NCCL_ENCRYPTION_MODE_PSK = 1 } ncclEncryptionMode_t;
typedef struct ncclEncryptionConfig_v23200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int mode;
  const char* psk;
} ncclEncryptionConfig_t;
R2CCL_TWINS(ncclResult_t, ncclSetEncryption, const ncclEncryptionConfig_t* config);

#undef R2CCL_TWINS

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
