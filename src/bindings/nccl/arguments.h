#pragma once
// Turns the arguments of C calls into values of ours. Everything that a cast would let through is checked here; what
// remains is checked by validate() of comm/call.h. Each sentence begins with the name of the call.

#include <nccl.h>

#include <cstdint>

#include "bindings/nccl/entry/outcome.h"
#include "bindings/nccl/member.h"
#include "comm/call.h"

namespace r2ccl::bindings {

// A live communicator; null and strangers are an invalid argument.
Outcome check_comm(const char* name, ncclComm_t handle, MemberPtr& member);
Outcome check_type(const char* name, ncclDataType_t datatype, DataType& type);
Outcome check_op(const char* name, int op, DataType type, Member& member, ReduceOp& out);
// A root or a peer.
Outcome check_rank(const char* name, const char* what, int rank, std::uint32_t size, std::uint32_t& out);
// Null: all defaults. Copies what the caller's version of the struct has.
Outcome check_config(const char* name, const ncclConfig_t* config, MemberConfig& out);

}  // namespace r2ccl::bindings
