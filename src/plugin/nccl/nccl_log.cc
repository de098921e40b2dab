#include "plugin/nccl/nccl_log.h"

namespace r2ccl::plugin {

void NcclLog::write(LogLevel level, std::string_view line) {
  const nccl::Logger logger = logger_;
  if (logger == nullptr) return;
  const int code = level <= LogLevel::kWarn   ? nccl::kLogWarn
                   : level == LogLevel::kInfo ? nccl::kLogInfo
                                              : nccl::kLogTrace;
  logger(code, nccl::kSubsystemInit | nccl::kSubsystemNet, "r2ccl", 0, "NET/R2CCL : %.*s",
         static_cast<int>(line.size()), line.data());
}

}  // namespace r2ccl::plugin
