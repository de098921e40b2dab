// Reductions made at run time.

#include <fmt/format.h>

#include <cstring>

#include "bindings/nccl/arguments.h"
#include "bindings/nccl/entry/entry.h"

using namespace r2ccl::bindings;

R2CCL_ENTRY(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
            ncclScalarResidence_t residence, ncclComm_t comm) {
  return guarded([&]() -> Outcome {
    constexpr const char* kName = "ncclRedOpCreatePreMulSum";
    MemberPtr member;
    r2ccl::DataType type{};
    if (auto bad = check_comm(kName, comm, member); !bad.ok()) return bad;
    if (auto bad = member->ready(kName); !bad.ok()) return bad;
    if (auto bad = check_type(kName, datatype, type); !bad.ok()) return bad;
    if (op == nullptr) return invalid_argument(fmt::format("{}: op is null", kName));
    if (scalar == nullptr) return invalid_argument(fmt::format("{}: scalar is null", kName));
    if (residence == ncclScalarDevice) {
      return invalid_usage(
          fmt::format("{}: scalars in device memory need device memory; use "
                      "ncclScalarHostImmediate",
                      kName));
    }
    if (residence != ncclScalarHostImmediate) {
      return invalid_argument(fmt::format("{}: there is no residence {}", kName, static_cast<int>(residence)));
    }
    std::uint64_t bits = 0;
    std::memcpy(&bits, scalar, size_of(type));
    *op = member->add_op(type, bits);
    return {};
  });
}

R2CCL_ENTRY(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm) {
  return guarded([&]() -> Outcome {
    const int value = op;
    MemberPtr member;
    if (auto bad = check_comm("ncclRedOpDestroy", comm, member); !bad.ok()) return bad;
    if (value >= 0 && value < ncclNumOps)
      return invalid_argument("ncclRedOpDestroy: built-in reductions can not be destroyed");
    if (!member->remove_op(value)) {
      return invalid_argument(fmt::format("ncclRedOpDestroy: this communicator has no reduction {}", value));
    }
    return {};
  });
}
