// Collectives with wishes for one call (NCCL 2.31). On host memory the wishes about kernels have no meaning; they are
// checked for range and change nothing, as those of ncclConfig_t. A wish that must be granted, or that the program
// waits for, is refused.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bindings/nccl/arguments.h"
#include "bindings/nccl/entry/entry.h"
#include "bindings/nccl/entry/later_names.h"
#include "bindings/nccl/group.h"

namespace r2ccl::bindings {
namespace {

struct CollIntField {
  const char* name;
  int ncclCollConfig_t::* field;
  int min;
  int max;
};
constexpr CollIntField kCollIntFields[] = {
    {"minCTAs", &ncclCollConfig_t::minCTAs, 1, INT_MAX},
    {"maxCTAs", &ncclCollConfig_t::maxCTAs, 1, INT_MAX},
    {"nvlsCTAs", &ncclCollConfig_t::nvlsCTAs, 1, INT_MAX},
    {"cgaClusterSize", &ncclCollConfig_t::cgaClusterSize, 0, INT_MAX},
    {"forceAlgSelection", &ncclCollConfig_t::forceAlgSelection, 0, 1},
    {"CTAPolicy", &ncclCollConfig_t::CTAPolicy, 0, NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO},
};

Outcome check_coll_config(const char* name, const ncclCollConfig_t* config) {
  if (config == nullptr) return {};
  ncclCollConfig_t known{};
  if (config->magic != 0xcafebeef || config->size < offsetof(ncclCollConfig_t, launchCompletionEvent)) {
    return invalid_argument(fmt::format("{}: config was not made with NCCL_COLLCONFIG_INITIALIZER", name));
  }
  std::memcpy(&known, config, std::min(config->size, sizeof(known)));
  for (const auto& [field_name, field, min, max] : kCollIntFields) {
    const int value = known.*field;
    if (value == NCCL_CONFIG_UNDEF_INT || (value >= min && value <= max)) continue;
    return invalid_argument(fmt::format("{}: config.{} is {}", name, field_name, value));
  }
  if (known.minCTAs != NCCL_CONFIG_UNDEF_INT && known.maxCTAs != NCCL_CONFIG_UNDEF_INT &&
      known.minCTAs > known.maxCTAs) {
    return invalid_argument(fmt::format("{}: config.minCTAs is more than maxCTAs", name));
  }
  const bool selects = known.algSelection != nullptr && known.algSelection[0] != 0;
  if (selects && known.forceAlgSelection != 0) {
    return invalid_usage(
        fmt::format("{}: config.algSelection asks for NCCL's '{}', which is not here; leave it empty, set "
                    "forceAlgSelection to 0, or choose one of ours with R2CCL_ALGO",
                    name, known.algSelection));
  }
  if (known.launchCompletionEvent != nullptr) {
    return invalid_usage(fmt::format(
        "{}: config.launchCompletionEvent is for kernels, and on host memory there are none; leave it null", name));
  }
  return {};
}

// A bad config fails the group of the call, as any other bad argument.
template <class Plain>
ncclResult_t call_with(const char* name, const ncclCollConfig_t* config, Plain plain) {
  const ncclResult_t checked = guarded([&]() -> Outcome {
    Outcome bad = check_coll_config(name, config);
    return bad.ok() ? bad : in_group([&] { return bad; });
  });
  return checked == ncclSuccess ? plain() : checked;
}

}  // namespace
}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;

R2CCL_ENTRY(ncclResult_t, ncclAllReduceConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config) {
  return call_with("ncclAllReduceConfig", config,
                   [&] { return pncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream); });
}

R2CCL_ENTRY(ncclResult_t, ncclBroadcastConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return call_with("ncclBroadcastConfig", config,
                   [&] { return pncclBroadcast(sendbuff, recvbuff, count, datatype, root, comm, stream); });
}

R2CCL_ENTRY(ncclResult_t, ncclReduceConfig, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return call_with("ncclReduceConfig", config,
                   [&] { return pncclReduce(sendbuff, recvbuff, count, datatype, op, root, comm, stream); });
}

R2CCL_ENTRY(ncclResult_t, ncclAllGatherConfig, const void* sendbuff, void* recvbuff, size_t sendcount,
            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return call_with("ncclAllGatherConfig", config,
                   [&] { return pncclAllGather(sendbuff, recvbuff, sendcount, datatype, comm, stream); });
}

R2CCL_ENTRY(ncclResult_t, ncclReduceScatterConfig, const void* sendbuff, void* recvbuff, size_t recvcount,
            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config) {
  return call_with("ncclReduceScatterConfig", config,
                   [&] { return pncclReduceScatter(sendbuff, recvbuff, recvcount, datatype, op, comm, stream); });
}

R2CCL_ENTRY(ncclResult_t, ncclAlltoAllConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return call_with("ncclAlltoAllConfig", config,
                   [&] { return pncclAlltoAll(sendbuff, recvbuff, count, datatype, comm, stream); });
}

R2CCL_ENTRY(ncclResult_t, ncclGatherConfig, const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return call_with("ncclGatherConfig", config,
                   [&] { return pncclGather(sendbuff, recvbuff, count, datatype, root, comm, stream); });
}

R2CCL_ENTRY(ncclResult_t, ncclScatterConfig, const void* sendbuff, void* recvbuff, size_t count,
            ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config) {
  return call_with("ncclScatterConfig", config,
                   [&] { return pncclScatter(sendbuff, recvbuff, count, datatype, root, comm, stream); });
}
