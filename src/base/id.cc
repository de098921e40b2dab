#include "base/id.h"

#include <fmt/format.h>

namespace r2ccl {

std::string to_text(PathId path) {
  return fmt::format("{}-{}", path.low.value, path.high.value);
}

std::string to_text(ProcessId process) {
  return fmt::format("{:016x}", process.value);
}

}  // namespace r2ccl
