#include "apps/r2ccl/status/version.h"

#include <fmt/format.h>

#define R2CCL_NO_CUDA_HEADERS  // of these headers only the versions are wanted
#include <r2ccl.h>

#include "plugin/nccl/nccl_net.h"
#include "transport/stream/handshake.h"

namespace r2ccl::apps {

std::string version_line() {
  return fmt::format("r2ccl {} (NCCL API {}.{}.{}, net plugin v{}-v{}, wire protocol {})", R2CCL_VERSION, NCCL_MAJOR,
                     NCCL_MINOR, NCCL_PATCH, plugin::nccl::kOldestInterface, plugin::nccl::kNewestInterface,
                     kProtocolVersion);
}

}  // namespace r2ccl::apps
