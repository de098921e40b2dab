// Questions of newer NCCLs that host memory can answer.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bindings/nccl/arguments.h"
#include "bindings/nccl/entry/entry.h"
#include "bindings/nccl/entry/later_names.h"

namespace r2ccl::bindings {
namespace {

constexpr unsigned int kStructMagic = 0xcafebeef;  // of all structs that have an initializer, but for ncclSimInfo_t

}  // namespace
}  // namespace r2ccl::bindings

using namespace r2ccl::bindings;

// No device memory is held, so none can be suspended, and none is.
R2CCL_ENTRY(ncclResult_t, ncclCommMemStats, ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value) {
  return guarded([&]() -> Outcome {
    MemberPtr member;
    if (auto bad = check_comm("ncclCommMemStats", comm, member); !bad.ok()) return bad;
    const int number = stat;
    if (number < ncclStatGpuMemSuspend || number > ncclStatGpuMemTotal) {
      return invalid_argument(fmt::format("ncclCommMemStats: there is no statistic {}", number));
    }
    if (value == nullptr) return invalid_argument("ncclCommMemStats: value is null");
    *value = 0;
    return {};
  });
}

// Who we are is told, everything that needs a device is not there: false, none, 0. commHash stays 0: all that the
// ranks of one communicator have in common and others have not comes from its secret.
R2CCL_ENTRY(ncclResult_t, ncclCommQueryProperties, ncclComm_t comm, ncclCommProperties* props) {
  return guarded([&]() -> Outcome {
    constexpr const char* kName = "ncclCommQueryProperties";
    constexpr std::size_t kFirst = offsetof(ncclCommProperties, rank);
    constexpr std::size_t kLeast = offsetof(ncclCommProperties, ginType);
    MemberPtr member;
    if (auto bad = check_comm(kName, comm, member); !bad.ok()) return bad;
    if (props == nullptr || props->magic != kStructMagic || props->size < kLeast) {
      return invalid_argument(fmt::format("{}: props was not made with NCCL_COMM_PROPERTIES_INITIALIZER", kName));
    }
    if (!member->has_identity()) {
      return invalid_argument(fmt::format("{}: the communicator is still being made", kName));
    }
    ncclCommProperties known{};
    known.rank = static_cast<int>(member->rank);
    known.nRanks = static_cast<int>(member->size);
    known.cudaDev = member->config.device;
    known.nvmlDev = member->config.device;
    // An older caller has a shorter struct; of a newer one's, the rest is as its initializer left it.
    std::memcpy(reinterpret_cast<char*>(props) + kFirst, reinterpret_cast<const char*>(&known) + kFirst,
                std::min(props->size, sizeof(known)) - kFirst);
    return {};
  });
}

// Success only where what was asked for is what happens.
R2CCL_ENTRY(ncclResult_t, ncclSetEncryption, const ncclEncryptionConfig_t* config) {
  return guarded([&]() -> Outcome {
    constexpr const char* kName = "ncclSetEncryption";
    if (config == nullptr || config->magic != kStructMagic || config->size < sizeof(*config)) {
      return invalid_argument(fmt::format("{}: config was not made with NCCL_ENCRYPTION_CONFIG_INITIALIZER", kName));
    }
    if (config->mode == NCCL_ENCRYPTION_MODE_NONE) return {};
    if (config->mode != NCCL_ENCRYPTION_MODE_PSK) {
      return invalid_argument(fmt::format("{}: there is no mode {}", kName, config->mode));
    }
    return invalid_usage(fmt::format(
        "{} (of NCCL 2.32): payload is not encrypted; connections are proven by the secret of the unique id "
        "or R2CCL_SECRET, and what must not be read needs a network of its own or IPsec beneath",
        kName));
  });
}
