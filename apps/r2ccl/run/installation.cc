#include "apps/r2ccl/run/installation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <system_error>
#include <vector>

namespace r2ccl::apps {
namespace {

// Folders are relative to the tool's own: those of a build tree first, then those of cmake/Install.cmake. No place is
// one where another NCCL could lie.
constexpr const char* kInstalledLibraries = R2CCL_LIBRARIES_FROM_TOOL;
constexpr const char* kInstalledHeaders = R2CCL_HEADERS_FROM_TOOL;

struct Places {
  std::string name;
  std::string component;  // of the installation
  std::vector<std::filesystem::path> paths;
};

Places places_of(Shipped what) {
  const std::filesystem::path libraries = kInstalledLibraries;
  const std::filesystem::path built = "../lib";
  switch (what) {
    case Shipped::kNccl:
      return {"our libnccl.so.2", "drop-in", {built / "r2ccl/libnccl.so.2", libraries / "r2ccl/libnccl.so.2"}};
    case Shipped::kPlugin:
      return {"the net plugin", "plugin", {built / "plugin/libnccl-net-r2ccl.so", libraries / "libnccl-net-r2ccl.so"}};
    case Shipped::kHeaders:
      return {"the folder of our headers", "development", {"../include/r2ccl", kInstalledHeaders}};
  }
  return {};
}

}  // namespace

Result<std::filesystem::path> find_shipped(Shipped what, const std::filesystem::path& tool) {
  const Places places = places_of(what);
  std::vector<std::string> looked_at;
  for (const auto& place : places.paths) {
    auto path = (tool.parent_path() / place).lexically_normal();
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
    if (looked_at.empty() || looked_at.back() != path) looked_at.push_back(path);
  }
  return fail(Fault::kMisuse,
              fmt::format("{} is not beside this tool: there is no {}; build it, or install it there with 'cmake "
                          "--install BUILD_FOLDER --component {}'",
                          places.name, fmt::join(looked_at, " and no "), places.component));
}

Result<std::filesystem::path> this_tool() {
  std::error_code error;
  auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return fail(Fault::kMisuse, fmt::format("/proc/self/exe does not say where this tool lies: {}", error.message()));
  return path;
}

}  // namespace r2ccl::apps
