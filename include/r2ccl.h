// What R2CCL offers beyond NCCL's interface. All of it is optional: a program that never includes this header loses
// nothing.
//
// Results are ncclResult_t; ncclGetLastError() has the sentence. Structs begin with their size: fill them with their
// initializer, so that a later library can tell which fields its caller knows.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "nccl.h"  // ours, which lies beside this file

#ifdef __cplusplus
extern "C" {
#endif

// ---- Version
// ----------------------------------------------------------------------------------------------------------------

// Of this header: major, minor, patch, as semantic versioning has them. The build refuses numbers other than those in
// the file VERSION.
#define R2CCL_VERSION_MAJOR 0
#define R2CCL_VERSION_MINOR 2
#define R2CCL_VERSION_PATCH 0
#define R2CCL_VERSION_CODE (R2CCL_VERSION_MAJOR * 10000 + R2CCL_VERSION_MINOR * 100 + R2CCL_VERSION_PATCH)
#define R2CCL_VERSION R2CCL_VERSION_TEXT_(R2CCL_VERSION_MAJOR, R2CCL_VERSION_MINOR, R2CCL_VERSION_PATCH)  // "0.2.0"
#define R2CCL_VERSION_TEXT_(major, minor, patch) R2CCL_VERSION_JOIN_(major, minor, patch)
#define R2CCL_VERSION_JOIN_(major, minor, patch) #major "." #minor "." #patch

// Of the library that is loaded, as R2CCL_VERSION_CODE counts.
ncclResult_t r2cclGetVersion(int* version);

// ---- Host streams
// ----------------------------------------------------------------------------------------------------------- A queue
// with a thread of its own; given as the stream of a call, the call is queued and returns at once. What is on one
// stream runs in order, also across communicators. Buffers stay valid until the call is done.

ncclResult_t r2cclStreamCreate(cudaStream_t* stream);
// Waits for everything on it; the answer is the first error since the last wait. A call that names no host stream,
// NULL included, is refused.
ncclResult_t r2cclStreamSynchronize(cudaStream_t stream);
// ncclInProgress while something is on it; else as Synchronize.
ncclResult_t r2cclStreamQuery(cudaStream_t stream);
// Waits, then frees it.
ncclResult_t r2cclStreamDestroy(cudaStream_t stream);

// ---- NICs
// -------------------------------------------------------------------------------------------------------------------

typedef enum {
  r2cclNicUp = 0,
  r2cclNicSuspect = 1,    // has been silent for a while; others carry its oldest work too
  r2cclNicDown = 2,       // carries nothing
  r2cclNicProbation = 3,  // came back and has to prove itself
  r2cclNicDrained = 4     // put aside by the user
} r2cclNicState_t;

typedef struct {
  size_t size;
  uint32_t id;
  r2cclNicState_t state;
  double bytesPerSecond;  // usable now; 0 = unknown
  char name[64];
} r2cclNicInfo_t;
#define R2CCL_NIC_INFO_INITIALIZER {sizeof(r2cclNicInfo_t), 0, r2cclNicUp, 0.0, ""}

// NICs of this server as this process sees them; indices run from 0.
ncclResult_t r2cclCommNicCount(ncclComm_t comm, int* count);
ncclResult_t r2cclCommNicInfo(ncclComm_t comm, int index, r2cclNicInfo_t* info);

// Called once for each NIC whose state is another than at the last look; looks are taken when an operation of the
// communicator ends, by the thread that waited for it. It must not call the library. A null callback ends it.
typedef void (*r2cclFailoverCallback_t)(const r2cclNicInfo_t* nic, void* context);
ncclResult_t r2cclCommOnFailover(ncclComm_t comm, r2cclFailoverCallback_t callback, void* context);

// Takes a NIC of this process out of use without an error, for maintenance, and back.
ncclResult_t r2cclCommDrain(ncclComm_t comm, uint32_t nic);
ncclResult_t r2cclCommUndrain(ncclComm_t comm, uint32_t nic);

// ---- Policy and statistics
// --------------------------------------------------------------------------------------------------

// How one communicator chooses; the same at all its ranks.
typedef struct {
  size_t size;
  const char* mode;        // NULL: as the environment says (R2CCL_MODE)
  const char* algorithm;   // NULL: as the mode says
  uint64_t peerTimeoutMs;  // 0: as the environment says (R2CCL_PEER_TIMEOUT)
} r2cclPolicy_t;
#define R2CCL_POLICY_INITIALIZER {sizeof(r2cclPolicy_t), NULL, NULL, 0}

// ncclCommInitRankConfig() with a policy; either may be NULL.
ncclResult_t r2cclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config,
                               const r2cclPolicy_t* policy);

typedef struct {
  size_t size;
  uint64_t calls;          // that were begun
  uint64_t bytes;          // of their buffers at this rank: count times element size
  uint64_t failures;       // calls that ended with an error
  uint64_t operation;      // number of the collective that ran last
  uint64_t healthVersion;  // of the health map its plan was made for
  char algorithm[64];      // its algorithm
} r2cclStats_t;
#define R2CCL_STATS_INITIALIZER {sizeof(r2cclStats_t), 0, 0, 0, 0, 0, ""}

ncclResult_t r2cclCommStats(ncclComm_t comm, r2cclStats_t* stats);

#ifdef __cplusplus
}  // extern "C"
#endif
