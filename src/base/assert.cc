#include "base/assert.h"

#include <fmt/format.h>

#include <string_view>

namespace r2ccl {

void raise_bug(const char* condition, const char* file, int line, const std::string& detail) {
  // Only the part of the path that means the same on every machine.
  std::string_view name = file;
  if (const auto src = name.rfind("/src/"); src != std::string_view::npos) name.remove_prefix(src + 5);
  throw Bug(fmt::format("bug at {}:{}: {} does not hold: {}", name, line, condition, detail));
}

}  // namespace r2ccl
