// The programming interface of NCCL 2.28.9, offered by R2CCL. Programs written for that version compile and link
// against it as they are.
//
// Where the CUDA headers are found they are included, as programs expect of this header; where there are none, a
// stream is an opaque pointer and everything else stays the same. Define R2CCL_NO_CUDA_HEADERS to leave them out
// although they are there.
//
// Today all buffers are host memory. A stream is NULL (the call is complete when it returns) or one of
// r2cclStreamCreate() (r2ccl.h). What needs device memory answers ncclInvalidUsage; ncclGetLastError() then says
// what.
//
// Every function F has a twin pF. F is weak, so a profiler can define F itself and call pF.
#pragma once

#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>

#if !defined(R2CCL_NO_CUDA_HEADERS) && defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#if __has_include(<cuda_fp16.h>)
#include <cuda_fp16.h>
#endif
#if __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#endif
#if defined(__cplusplus) && __has_include(<cuda_fp8.h>)
#include <cuda_fp8.h>
#endif
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The same type as CUDA's, so either may come first.
typedef struct CUstream_st* cudaStream_t;

// ---- Version
// ----------------------------------------------------------------------------------------------------------------

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""
// Up to 2.8 a version was MmPP, since then MMmmPP.
#define NCCL_VERSION(X, Y, Z) ((X) * ((X) <= 2 && (Y) <= 8 ? 1000 : 10000) + (Y) * 100 + (Z))
#define NCCL_VERSION_CODE 22809

// ---- Results
// ----------------------------------------------------------------------------------------------------------------

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,      // the operating system or every path of ours failed
  ncclInternalError = 3,    // a bug of the library
  ncclInvalidArgument = 4,  // one argument is wrong by itself
  ncclInvalidUsage = 5,     // the call is wrong here and now
  ncclRemoteError = 6,      // a peer is gone or gave up
  ncclInProgress = 7,       // ask ncclCommGetAsyncError() again
  ncclNumResults = 8
} ncclResult_t;

// ---- Elements and operations
// ------------------------------------------------------------------------------------------------

typedef enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12,
  // Other names of the same.
  ncclChar = ncclInt8,
  ncclInt = ncclInt32,
  ncclHalf = ncclFloat16,
  ncclFloat = ncclFloat32,
  ncclDouble = ncclFloat64
} ncclDataType_t;

// Values from ncclNumOps to ncclMaxRedOp name operations made at run time.
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;
typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;

// When the scalar of an operation is read: while it runs, or before the function that makes it returns.
typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

// ---- Handles, configuration, flags
// ------------------------------------------------------------------------------------------

typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01  // end what the parent is doing first
#define NCCL_REVOKE_DEFAULT 0x00

// Wishes for one communicator; start from NCCL_CONFIG_INITIALIZER. Honoured here: blocking, commName. The others are
// checked for range and have no meaning on host memory.
typedef struct ncclConfig_v22800 {
  size_t size;           // the first three are the initializer's
  unsigned int magic;    //
  unsigned int version;  //
  int blocking;          // 0: calls that would wait return ncclInProgress
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} ncclConfig_t;

// In the order of the fields: three of its own, then everything undefined.
#define NCCL_CONFIG_INITIALIZER                  \
  {sizeof(ncclConfig_t),  0xcafebeef,            \
   NCCL_VERSION_CODE,     NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, \
   NCCL_CONFIG_UNDEF_INT}

typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER {sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT}

// ---- Functions
// --------------------------------------------------------------------------------------------------------------

// Declares a function and its profiling twin.
#define R2CCL_TWINS(result, name, ...) \
  result name(__VA_ARGS__);            \
  result p##name(__VA_ARGS__)

// What the library is, and what went wrong. The sentence stays valid until the next call of this thread.
R2CCL_TWINS(ncclResult_t, ncclGetVersion, int* version);
R2CCL_TWINS(const char*, ncclGetErrorString, ncclResult_t result);
R2CCL_TWINS(const char*, ncclGetLastError, ncclComm_t comm);
R2CCL_TWINS(__attribute__((deprecated("does nothing"))) void, ncclResetDebugInit, void);

// Making communicators. One process calls ncclGetUniqueId() and hands the id to all others; every rank then joins
// with it. A join waits for all ranks: a thread that holds several makes them between ncclGroupStart() and
// ncclGroupEnd().
R2CCL_TWINS(ncclResult_t, ncclGetUniqueId, ncclUniqueId* uniqueId);
R2CCL_TWINS(ncclResult_t, ncclCommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);
R2CCL_TWINS(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
            ncclConfig_t* config);
// All ranks give the same ids in the same order.
R2CCL_TWINS(ncclResult_t, ncclCommInitRankScalable, ncclComm_t* newcomm, int nranks, int myrank, int nId,
            ncclUniqueId* commIds, ncclConfig_t* config);
// All ranks are in this process; comm has room for ndev. Without a list of devices rank i is device i.
R2CCL_TWINS(ncclResult_t, ncclCommInitAll, ncclComm_t* comm, int ndev, const int* devlist);

// Communicators from a communicator. Every rank of the parent takes part in a split: ranks of one colour become one
// communicator, ordered by key, then by old rank; NCCL_SPLIT_NOCOLOR gives none. A shrink is made by the ranks that
// stay, in their old order; with NCCL_SHRINK_ABORT the parent may have failed. Both may follow a revoke. Without a
// config the parent's counts.
R2CCL_TWINS(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
            ncclConfig_t* config);
R2CCL_TWINS(ncclResult_t, ncclCommShrink, ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);

// Ending one. Finalize waits until all ranks have nothing left to do; Destroy gives the handle back; Abort does so at
// once, ending what runs; Revoke ends what runs and keeps the handle.
R2CCL_TWINS(ncclResult_t, ncclCommFinalize, ncclComm_t comm);
R2CCL_TWINS(ncclResult_t, ncclCommDestroy, ncclComm_t comm);
R2CCL_TWINS(ncclResult_t, ncclCommAbort, ncclComm_t comm);
R2CCL_TWINS(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int revokeFlags);

// Asking one. The device of a rank on host memory is -1, CUDA's number of the processor.
R2CCL_TWINS(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* asyncError);
R2CCL_TWINS(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* count);
R2CCL_TWINS(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank);
R2CCL_TWINS(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device);

// Memory. Registering tells the library of a buffer that will be used again.
R2CCL_TWINS(ncclResult_t, ncclMemAlloc, void** ptr, size_t size);
R2CCL_TWINS(ncclResult_t, ncclMemFree, void* ptr);
R2CCL_TWINS(ncclResult_t, ncclCommRegister, const ncclComm_t comm, void* buff, size_t size, void** handle);
R2CCL_TWINS(ncclResult_t, ncclCommDeregister, const ncclComm_t comm, void* handle);
R2CCL_TWINS(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
            int winFlags);
R2CCL_TWINS(ncclResult_t, ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t win);

// A sum whose operands are multiplied by a scalar first, for this communicator and type.
R2CCL_TWINS(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
            ncclScalarResidence_t residence, ncclComm_t comm);
R2CCL_TWINS(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm);

// Collectives. Every rank calls them in the same order. In n ranks with a count of c:
//   AllReduce, Broadcast, Reduce    c elements each; in place: the same buffer twice
//   AllGather, Gather               c from each rank, n * c where they arrive, ordered by rank; in place: the rank's
//                                   own block
//   ReduceScatter, Scatter          n * c where they start, c for each rank; in place: the rank's own block
//   AlltoAll                        n * c to n * c; block j goes to rank j
// Buffers that only the root uses may be NULL elsewhere.
R2CCL_TWINS(ncclResult_t, ncclAllReduce, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
R2CCL_TWINS(ncclResult_t, ncclReduceScatter, const void* sendbuff, void* recvbuff, size_t recvcount,
            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
R2CCL_TWINS(ncclResult_t, ncclAllGather, const void* sendbuff, void* recvbuff, size_t sendcount,
            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
R2CCL_TWINS(ncclResult_t, ncclAlltoAll, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclComm_t comm, cudaStream_t stream);
R2CCL_TWINS(ncclResult_t, ncclBroadcast, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            int root, ncclComm_t comm, cudaStream_t stream);
R2CCL_TWINS(ncclResult_t, ncclBcast, void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
            cudaStream_t stream);
R2CCL_TWINS(ncclResult_t, ncclReduce, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
R2CCL_TWINS(ncclResult_t, ncclGather, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            int root, ncclComm_t comm, cudaStream_t stream);
R2CCL_TWINS(ncclResult_t, ncclScatter, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            int root, ncclComm_t comm, cudaStream_t stream);

// One to one. Both sides name the same count and type. Those of one group run side by side.
R2CCL_TWINS(ncclResult_t, ncclSend, const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
            ncclComm_t comm, cudaStream_t stream);
R2CCL_TWINS(ncclResult_t, ncclRecv, void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
            cudaStream_t stream);

// Groups. Calls between Start and End begin together at the outermost End. Groups may be nested and belong to one
// thread.
R2CCL_TWINS(ncclResult_t, ncclGroupStart, void);
R2CCL_TWINS(ncclResult_t, ncclGroupEnd, void);
R2CCL_TWINS(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t* simInfo);

#undef R2CCL_TWINS

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // NCCL_H_
