// The calls that move data: each becomes a Call (comm/call.h) of the thread's group.

#include "bindings/nccl/arguments.h"
#include "bindings/nccl/call_batch.h"
#include "bindings/nccl/entry/entry.h"
#include "bindings/nccl/group.h"

namespace r2ccl::bindings {
namespace {

// A call as C gave it; -1: it has no such argument.
struct Asked {
  const char* name;
  CallKind kind;
  const void* input;
  void* output;
  std::size_t count;
  ncclDataType_t type;
  int op = -1;
  int root = -1;
};

Outcome to_call(const Asked& asked, Member& member, Call& call) {
  call = {asked.kind, asked.input, asked.output, asked.count, {}, {}, 0};
  if (auto bad = check_type(asked.name, asked.type, call.type); !bad.ok()) return bad;
  if (reduces(asked.kind)) {
    if (auto bad = check_op(asked.name, asked.op, call.type, member, call.op); !bad.ok()) return bad;
  }
  const bool rooted = has_root(asked.kind);
  if (rooted || is_point_to_point(asked.kind)) {
    const char* what = rooted ? "root" : "peer";
    if (auto bad = check_rank(asked.name, what, asked.root, member.size, call.peer); !bad.ok()) return bad;
  }
  Outcome valid = to_outcome(validate(call, member.rank, member.size), ncclInvalidArgument);
  if (!valid.ok()) valid.what = std::string(asked.name) + ": " + valid.what;
  return valid;
}

Outcome to_operation(const Asked& asked, ncclComm_t comm, cudaStream_t stream, QueuedCall& operation) {
  if (auto bad = check_comm(asked.name, comm, operation.member); !bad.ok()) return bad;
  if (auto bad = operation.member->ready(asked.name); !bad.ok()) return bad;
  if (auto bad = to_call(asked, *operation.member, operation.call); !bad.ok()) return bad;
  return find_stream(stream, operation.stream);
}

ncclResult_t enqueue(const Asked& asked, ncclComm_t comm, cudaStream_t stream) {
  return guarded([&] {
    QueuedCall operation;
    Outcome outcome = to_operation(asked, comm, stream, operation);
    const bool alone = !is_grouped() && operation.stream == nullptr && !is_point_to_point(asked.kind);
    if (alone && (!outcome.ok() || run_alone(operation.member, operation.call, outcome))) return outcome;
    return in_group([&] {
      if (outcome.ok()) add_operation(std::move(operation));
      return outcome;
    });
  });
}

}  // namespace
}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;
using r2ccl::CallKind;

R2CCL_ENTRY(ncclResult_t, ncclAllReduce, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({"ncclAllReduce", CallKind::kAllReduce, sendbuff, recvbuff, count, datatype, op}, comm, stream);
}

R2CCL_ENTRY(ncclResult_t, ncclReduceScatter, const void* sendbuff, void* recvbuff, size_t recvcount,
            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({"ncclReduceScatter", CallKind::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op}, comm,
                 stream);
}

R2CCL_ENTRY(ncclResult_t, ncclAllGather, const void* sendbuff, void* recvbuff, size_t sendcount,
            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({"ncclAllGather", CallKind::kAllGather, sendbuff, recvbuff, sendcount, datatype}, comm, stream);
}

R2CCL_ENTRY(ncclResult_t, ncclAlltoAll, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclComm_t comm, cudaStream_t stream) {
  return enqueue({"ncclAlltoAll", CallKind::kAllToAll, sendbuff, recvbuff, count, datatype}, comm, stream);
}

R2CCL_ENTRY(ncclResult_t, ncclBroadcast, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({"ncclBroadcast", CallKind::kBroadcast, sendbuff, recvbuff, count, datatype, -1, root}, comm, stream);
}

R2CCL_ENTRY(ncclResult_t, ncclBcast, void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
            cudaStream_t stream) {
  return enqueue({"ncclBcast", CallKind::kBroadcast, buff, buff, count, datatype, -1, root}, comm, stream);
}

R2CCL_ENTRY(ncclResult_t, ncclReduce, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({"ncclReduce", CallKind::kReduce, sendbuff, recvbuff, count, datatype, op, root}, comm, stream);
}

R2CCL_ENTRY(ncclResult_t, ncclGather, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({"ncclGather", CallKind::kGather, sendbuff, recvbuff, count, datatype, -1, root}, comm, stream);
}

R2CCL_ENTRY(ncclResult_t, ncclScatter, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue({"ncclScatter", CallKind::kScatter, sendbuff, recvbuff, count, datatype, -1, root}, comm, stream);
}

R2CCL_ENTRY(ncclResult_t, ncclSend, const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
            ncclComm_t comm, cudaStream_t stream) {
  return enqueue({"ncclSend", CallKind::kSend, sendbuff, nullptr, count, datatype, -1, peer}, comm, stream);
}

R2CCL_ENTRY(ncclResult_t, ncclRecv, void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
            cudaStream_t stream) {
  return enqueue({"ncclRecv", CallKind::kRecv, nullptr, recvbuff, count, datatype, -1, peer}, comm, stream);
}
