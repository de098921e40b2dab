#include "bindings/nccl/process_world.h"

#include <unistd.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "process/launched_by.h"

namespace r2ccl::bindings {
namespace {

WorldMaker world_maker = make_world;

struct TheWorld {
  Status status;
  World* world = nullptr;
  bool fixed_root = false;

  TheWorld() {
    const auto environment = environment_of(environ);
    const auto settings = Settings::parse(environment);
    if (!settings) {
      status = std::unexpected(settings.error());
      return;
    }
    const auto place = place_of(environment);
    if (!place) {
      status = std::unexpected(place.error());
      return;
    }
    fixed_root = place->has_value();
    world = world_maker(settings_for(*settings, *place), *place).release();
  }

  static Result<std::optional<MeetingPlace>> place_of(std::span<const std::string_view> environment) {
    constexpr std::string_view kRoot = "NCCL_COMM_ID=";
    for (const std::string_view entry : environment) {
      if (!entry.starts_with(kRoot) || entry.size() == kRoot.size()) continue;
      const auto where = parse_comm_id(std::string(entry.substr(kRoot.size())));
      if (!where) return std::unexpected(where.error());
      auto place = resolve(where->host, where->port);
      if (!place) return std::unexpected(place.error());
      return std::move(*place);
    }
    return std::nullopt;
  }
};

const TheWorld& process() {
  static const auto* const kProcess = new TheWorld;
  return *kProcess;
}

}  // namespace

Result<World*> world() {
  const TheWorld& self = process();
  if (!self.status) return std::unexpected(self.status.error());
  return self.world;
}

void set_world_maker(WorldMaker maker) {
  world_maker = maker;
}

bool has_fixed_root() {
  return process().fixed_root;
}

}  // namespace r2ccl::bindings
