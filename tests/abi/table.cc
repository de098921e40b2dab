// Prints what a program can see of nccl.h: every constant, layout and function type, one per line. Compiled once
// against our header and once against NCCL's own; the two outputs must be the same (compare.py).

#include <nccl.h>

#include <cxxabi.h>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <typeinfo>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

void value(const char* name, long long number) {
  std::printf("%s = %lld\n", name, number);
}
void layout(const char* name, std::size_t offset, std::size_t size) {
  std::printf("%s at %zu, %zu bytes\n", name, offset, size);
}
void type(const char* name, const std::type_info& info) {
  char* text = abi::__cxa_demangle(info.name(), nullptr, nullptr, nullptr);
  std::printf("%s: %s\n", name, text);
  std::free(text);
}

#define VALUE(name) value(#name, static_cast<long long>(name))
#define SIZE(name) layout(#name, alignof(name), sizeof(name))
#define FIELD(of, name) \
  layout(#of "." #name, offsetof(of, name), sizeof(of::name)), type(#of "." #name, typeid(decltype(of::name)))
#define FUNCTION(name) type(#name, typeid(&name)), type("p" #name, typeid(&p##name))

void constants() {
  VALUE(NCCL_MAJOR);
  VALUE(NCCL_MINOR);
  VALUE(NCCL_PATCH);
  VALUE(NCCL_VERSION_CODE);
  VALUE(NCCL_VERSION(2, 8, 4));
  VALUE(NCCL_VERSION(2, 9, 1));
  VALUE(NCCL_VERSION(1, 20, 3));
  VALUE(NCCL_VERSION(2, 28, 9));
  VALUE(sizeof(NCCL_SUFFIX));
  VALUE(NCCL_UNIQUE_ID_BYTES);
  VALUE(NCCL_CONFIG_UNDEF_INT);
  value("NCCL_CONFIG_UNDEF_PTR", reinterpret_cast<std::intptr_t>(static_cast<void*>(NCCL_CONFIG_UNDEF_PTR)));
  value("NCCL_COMM_NULL", reinterpret_cast<std::intptr_t>(static_cast<void*>(NCCL_COMM_NULL)));
  VALUE(NCCL_SPLIT_NOCOLOR);
  VALUE(NCCL_UNDEF_FLOAT * 1000);
  VALUE(NCCL_WIN_DEFAULT);
  VALUE(NCCL_WIN_COLL_SYMMETRIC);
  VALUE(NCCL_WIN_REQUIRED_ALIGNMENT);
  VALUE(NCCL_CTA_POLICY_DEFAULT);
  VALUE(NCCL_CTA_POLICY_EFFICIENCY);
  VALUE(NCCL_CTA_POLICY_ZERO);
  VALUE(NCCL_SHRINK_DEFAULT);
  VALUE(NCCL_SHRINK_ABORT);
  VALUE(NCCL_REVOKE_DEFAULT);
}

void enumerators() {
  VALUE(ncclSuccess);
  VALUE(ncclUnhandledCudaError);
  VALUE(ncclSystemError);
  VALUE(ncclInternalError);
  VALUE(ncclInvalidArgument);
  VALUE(ncclInvalidUsage);
  VALUE(ncclRemoteError);
  VALUE(ncclInProgress);
  VALUE(ncclNumResults);
  VALUE(ncclInt8);
  VALUE(ncclChar);
  VALUE(ncclUint8);
  VALUE(ncclInt32);
  VALUE(ncclInt);
  VALUE(ncclUint32);
  VALUE(ncclInt64);
  VALUE(ncclUint64);
  VALUE(ncclFloat16);
  VALUE(ncclHalf);
  VALUE(ncclFloat32);
  VALUE(ncclFloat);
  VALUE(ncclFloat64);
  VALUE(ncclDouble);
  VALUE(ncclBfloat16);
  VALUE(ncclFloat8e4m3);
  VALUE(ncclFloat8e5m2);
  VALUE(ncclNumTypes);
  VALUE(ncclSum);
  VALUE(ncclProd);
  VALUE(ncclMax);
  VALUE(ncclMin);
  VALUE(ncclAvg);
  VALUE(ncclNumOps);
  VALUE(ncclMaxRedOp);
  VALUE(ncclNumOps_dummy);
  VALUE(ncclScalarDevice);
  VALUE(ncclScalarHostImmediate);
}

void layouts() {
  SIZE(ncclResult_t);
  SIZE(ncclDataType_t);
  SIZE(ncclRedOp_t);
  SIZE(ncclRedOp_dummy_t);
  SIZE(ncclScalarResidence_t);
  SIZE(ncclComm_t);
  SIZE(ncclWindow_t);
  SIZE(ncclUniqueId);
  SIZE(ncclConfig_t);
  SIZE(ncclSimInfo_t);
  type("ncclComm_t", typeid(ncclComm_t));
  type("ncclWindow_t", typeid(ncclWindow_t));
  type("ncclConfig_t", typeid(ncclConfig_t));
  type("ncclSimInfo_t", typeid(ncclSimInfo_t));
  FIELD(ncclUniqueId, internal);
  FIELD(ncclConfig_t, size);
  FIELD(ncclConfig_t, magic);
  FIELD(ncclConfig_t, version);
  FIELD(ncclConfig_t, blocking);
  FIELD(ncclConfig_t, cgaClusterSize);
  FIELD(ncclConfig_t, minCTAs);
  FIELD(ncclConfig_t, maxCTAs);
  FIELD(ncclConfig_t, netName);
  FIELD(ncclConfig_t, splitShare);
  FIELD(ncclConfig_t, trafficClass);
  FIELD(ncclConfig_t, commName);
  FIELD(ncclConfig_t, collnetEnable);
  FIELD(ncclConfig_t, CTAPolicy);
  FIELD(ncclConfig_t, shrinkShare);
  FIELD(ncclConfig_t, nvlsCTAs);
  FIELD(ncclConfig_t, nChannelsPerNetPeer);
  FIELD(ncclConfig_t, nvlinkCentricSched);
  FIELD(ncclSimInfo_t, size);
  FIELD(ncclSimInfo_t, magic);
  FIELD(ncclSimInfo_t, version);
  FIELD(ncclSimInfo_t, estimatedTime);
}

void initializers() {
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  const ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  const auto number = [](const char* name, auto field) { value(name, static_cast<long long>(field)); };
  number("config.size", config.size);
  number("config.magic", config.magic);
  number("config.version", config.version);
  for (int field : {config.blocking, config.cgaClusterSize, config.minCTAs, config.maxCTAs, config.splitShare,
                    config.trafficClass, config.collnetEnable, config.CTAPolicy, config.shrinkShare, config.nvlsCTAs,
                    config.nChannelsPerNetPeer, config.nvlinkCentricSched}) {
    number("config field", field);
  }
  number("config.netName", reinterpret_cast<std::size_t>(config.netName));
  number("config.commName", reinterpret_cast<std::size_t>(config.commName));
  number("info.size", info.size);
  number("info.magic", info.magic);
  number("info.version", info.version);
  number("info.estimatedTime * 1000", info.estimatedTime * 1000);
}

void functions() {
#include "functions.inc"
}

}  // namespace

int main() {
  constants();
  enumerators();
  layouts();
  initializers();
  functions();
}
