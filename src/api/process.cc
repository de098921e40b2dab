#include "api/process.h"

#include <unistd.h>

#include <string_view>

namespace r2ccl::api {
namespace {

struct Process {
  Status status;
  World* world = nullptr;
  std::optional<Address> root;

  Process() {
    const auto environment = environment_of(environ);
    const auto settings = Settings::parse(environment);
    if (!settings) {
      status = std::unexpected(settings.error());
      return;
    }
    constexpr std::string_view kRoot = "NCCL_COMM_ID=";
    for (const std::string_view entry : environment) {
      if (!entry.starts_with(kRoot) || entry.size() == kRoot.size()) continue;
      const auto address = Address::parse(entry.substr(kRoot.size()));
      if (!address) {
        status = fail(Fault::kMisuse, "NCCL_COMM_ID: " + address.error().what);
        return;
      }
      root = *address;
      break;
    }
    world = new World(*settings);
  }
};

const Process& process() {
  static const auto* const kProcess = new Process;
  return *kProcess;
}

}  // namespace

Result<World*> world() {
  const Process& self = process();
  if (!self.status) return std::unexpected(self.status.error());
  return self.world;
}

std::optional<Address> fixed_root() {
  return process().root;
}

}  // namespace r2ccl::api
