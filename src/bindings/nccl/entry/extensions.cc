// NICs, failover and statistics of r2ccl.h.

#include <fmt/format.h>

#include <r2ccl.h>
#include <algorithm>

#include "bindings/nccl/arguments.h"
#include "bindings/nccl/entry/entry.h"

namespace r2ccl::bindings {
namespace {

template <class Body>
ncclResult_t with_member(const char* name, ncclComm_t comm, Body body) {
  return guarded([&]() -> Outcome {
    MemberPtr member;
    if (auto bad = check_comm(name, comm, member); !bad.ok()) return bad;
    if (!member->has_identity()) {
      return invalid_argument(fmt::format("{}: the communicator is still being made", name));
    }
    return body(*member);
  });
}

}  // namespace
}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;

extern "C" ncclResult_t r2cclGetVersion(int* version) {
  return guarded([&]() -> Outcome {
    if (version == nullptr) return invalid_argument("r2cclGetVersion: version is null");
    *version = R2CCL_VERSION_CODE;
    return {};
  });
}

extern "C" ncclResult_t r2cclCommNicCount(ncclComm_t comm, int* count) {
  return with_member("r2cclCommNicCount", comm, [&](Member& member) -> Outcome {
    if (count == nullptr) return invalid_argument("r2cclCommNicCount: count is null");
    *count = static_cast<int>(member.comm()->nics().size());
    return {};
  });
}

extern "C" ncclResult_t r2cclCommNicInfo(ncclComm_t comm, int index, r2cclNicInfo_t* info) {
  return with_member("r2cclCommNicInfo", comm, [&](Member& member) -> Outcome {
    if (info == nullptr || info->size != sizeof(*info)) {
      return invalid_argument("r2cclCommNicInfo: info was not made with R2CCL_NIC_INFO_INITIALIZER");
    }
    const auto nics = member.comm()->nics();
    if (index < 0 || static_cast<std::size_t>(index) >= nics.size()) {
      return invalid_argument(fmt::format("r2cclCommNicInfo: there is no NIC {} among {}", index, nics.size()));
    }
    *info = to_nic_info(nics[static_cast<std::size_t>(index)]);
    return {};
  });
}

extern "C" ncclResult_t r2cclCommOnFailover(ncclComm_t comm, r2cclFailoverCallback_t callback, void* context) {
  return with_member("r2cclCommOnFailover", comm, [&](Member& member) -> Outcome {
    member.on_failover(callback, context);
    return {};
  });
}

extern "C" ncclResult_t r2cclCommStats(ncclComm_t comm, r2cclStats_t* stats) {
  return with_member("r2cclCommStats", comm, [&](Member& member) -> Outcome {
    if (stats == nullptr || stats->size != sizeof(*stats)) {
      return invalid_argument("r2cclCommStats: stats was not made with R2CCL_STATS_INITIALIZER");
    }
    member.fill(*stats);
    return {};
  });
}

namespace {

ncclResult_t set_drained(const char* name, ncclComm_t comm, std::uint32_t nic, bool on) {
  return with_member(name, comm, [&](Member& member) -> Outcome {
    const auto nics = member.comm()->nics();
    const auto known = std::ranges::find(nics, nic, [](const r2ccl::NicView& view) { return view.id.value; });
    if (known == nics.end()) return invalid_argument(fmt::format("{}: there is no NIC {}", name, nic));
    member.comm()->drain(known->id, on);
    return {};
  });
}

}  // namespace

extern "C" ncclResult_t r2cclCommDrain(ncclComm_t comm, uint32_t nic) {
  return set_drained("r2cclCommDrain", comm, nic, true);
}

extern "C" ncclResult_t r2cclCommUndrain(ncclComm_t comm, uint32_t nic) {
  return set_drained("r2cclCommUndrain", comm, nic, false);
}
