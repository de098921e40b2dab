#include "bindings/nccl/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace r2ccl::bindings {

Outcome check_comm(const char* name, ncclComm_t handle, MemberPtr& member) {
  if (handle == nullptr) return invalid_argument(fmt::format("{}: comm is null", name));
  member = find_member(handle);
  if (member == nullptr) {
    return invalid_argument(fmt::format("{}: comm is not a communicator, or was destroyed", name));
  }
  return {};
}

Outcome check_type(const char* name, ncclDataType_t datatype, DataType& type) {
  const int value = datatype;
  if (value < 0 || value >= ncclNumTypes) {
    return invalid_argument(fmt::format("{}: there is no data type {}", name, value));
  }
  type = static_cast<DataType>(value);
  return {};
}

Outcome check_op(const char* name, int op, DataType type, Member& member, ReduceOp& out) {
  if (op >= 0 && op < ncclNumOps) {
    out = {static_cast<ReduceName>(op), 0};
    return {};
  }
  const auto made = member.find_op(op);
  if (!made) return invalid_argument(fmt::format("{}: this communicator has no reduction {}", name, op));
  if (made->type != type) {
    return invalid_argument(
        fmt::format("{}: reduction {} is for {}, not for {}", name, op, to_text(made->type), to_text(type)));
  }
  out = {ReduceName::kPreMulSum, made->scalar};
  return {};
}

Outcome check_rank(const char* name, const char* what, int rank, std::uint32_t size, std::uint32_t& out) {
  if (rank < 0 || static_cast<std::uint32_t>(rank) >= size) {
    return invalid_argument(fmt::format("{}: {} {} is not among {} ranks", name, what, rank, size));
  }
  out = static_cast<std::uint32_t>(rank);
  return {};
}

namespace {

struct IntField {
  const char* name;
  int ncclConfig_t::* field;
  int min;
  int max;
};
constexpr IntField kIntFields[] = {
    {"blocking", &ncclConfig_t::blocking, 0, 1},
    {"cgaClusterSize", &ncclConfig_t::cgaClusterSize, 0, INT_MAX},
    {"minCTAs", &ncclConfig_t::minCTAs, 1, INT_MAX},
    {"maxCTAs", &ncclConfig_t::maxCTAs, 1, INT_MAX},
    {"splitShare", &ncclConfig_t::splitShare, 0, 1},
    {"collnetEnable", &ncclConfig_t::collnetEnable, 0, 1},
    {"CTAPolicy", &ncclConfig_t::CTAPolicy, 0, NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO},
    {"shrinkShare", &ncclConfig_t::shrinkShare, 0, 1},
    {"nvlsCTAs", &ncclConfig_t::nvlsCTAs, 1, INT_MAX},
    {"nChannelsPerNetPeer", &ncclConfig_t::nChannelsPerNetPeer, 1, INT_MAX},
    {"nvlinkCentricSched", &ncclConfig_t::nvlinkCentricSched, 0, 1},
};

Outcome check_ranges(const char* name, const ncclConfig_t& config) {
  for (const auto& [field_name, field, min, max] : kIntFields) {
    const int value = config.*field;
    if (value == NCCL_CONFIG_UNDEF_INT || (value >= min && value <= max)) continue;
    return invalid_argument(fmt::format("{}: config.{} is {}", name, field_name, value));
  }
  const bool both = config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT;
  if (both && config.minCTAs > config.maxCTAs) {
    return invalid_argument(fmt::format("{}: config.minCTAs is more than maxCTAs", name));
  }
  return {};
}

}  // namespace

Outcome check_config(const char* name, const ncclConfig_t* config, MemberConfig& out) {
  if (config == nullptr) return {};
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  const bool plausible = config->magic == known.magic && config->size >= offsetof(ncclConfig_t, cgaClusterSize);
  if (!plausible) return invalid_argument(fmt::format("{}: config was not made with NCCL_CONFIG_INITIALIZER", name));
  // A caller of an older version has fewer fields, one of a newer version more than we know.
  std::memcpy(&known, config, std::min(config->size, sizeof(known)));
  if (auto bad = check_ranges(name, known); !bad.ok()) return bad;
  if (known.blocking != NCCL_CONFIG_UNDEF_INT) out.blocking = known.blocking == 1;
  if (known.commName != NCCL_CONFIG_UNDEF_PTR) out.name = known.commName;
  return {};
}

}  // namespace r2ccl::bindings
