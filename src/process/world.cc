#include "process/world.h"

#include <fmt/format.h>

#include <utility>

#include "base/assert.h"
#include "process/real_comm.h"
#include "process/world_parts.h"

namespace r2ccl {
namespace {

class RealWorld final : public World {
 public:
  RealWorld(const Settings& settings, std::optional<MeetingPlace> place)
      : parts_(std::make_shared<WorldParts>(settings, std::move(place))) {}

  Result<UniqueId> make_id() override;
  Result<UniqueId> fixed_id(bool host) override;
  Result<std::shared_ptr<Comm>> join(const UniqueId& id, std::uint32_t rank, std::uint32_t size,
                                     const CommConfig& config) override;
  const Settings& settings() const override { return parts_->settings; }

 private:
  const std::shared_ptr<WorldParts> parts_;
};

Result<UniqueId> RealWorld::make_id() {
  auto endpoint = parts_->endpoint(0);
  if (!endpoint) return std::unexpected(endpoint.error());
  Result<UniqueId> id = fail(Fault::kBug, "not asked yet");
  (*endpoint)->process->driver().with_engine([&](Engine& engine) { id = engine.host(0); });
  return id;
}

Result<UniqueId> RealWorld::fixed_id(bool host) {
  R2CCL_ASSERT(parts_->place.has_value(), "a fixed id needs a place");
  UniqueId id = parts_->placed_id();
  if (!host) return id;
  auto endpoint = parts_->endpoint(0);
  if (!endpoint) return std::unexpected(endpoint.error());
  Process& process = *(*endpoint)->process;
  if (parts_->settings.secret.empty()) {
    process.log().write(LogLevel::kWarn,
                        fmt::format("The job at {} has no secret: whoever reaches it may join. Set R2CCL_SECRET.",
                                    to_text(id.root.front())));
  }
  if (const auto hosted = process.host_at_place(id.secret); !hosted) return std::unexpected(hosted.error());
  return id;
}

Result<std::shared_ptr<Comm>> RealWorld::join(const UniqueId& id, std::uint32_t rank, std::uint32_t size,
                                              const CommConfig& config) {
  if (size == 0 || rank >= size)
    return fail(Fault::kMisuse, fmt::format("Rank {} is not one of {} ranks.", rank, size));
  CommConfig whole = config;
  if (whole.mode.empty()) whole.mode = parts_->settings.mode;
  if (whole.algorithm.empty()) whole.algorithm = parts_->settings.algorithm;
  whole.shared_memory = parts_->settings.shared_memory;
  whole.fabric = parts_->settings.fabric == "rails" ? Fabric::kRails : Fabric::kRouted;
  if (const auto mode = mode_of(whole.mode); !mode) return std::unexpected(mode.error());
  std::uint32_t local = 0;
  {
    const std::lock_guard lock(parts_->mutex);
    local = parts_->local_ranks[id.secret]++;
  }
  auto endpoint = parts_->endpoint(local);
  if (!endpoint) return std::unexpected(endpoint.error());
  UniqueId known = id;
  if (parts_->place && parts_->placed_id().secret == id.secret) known = parts_->placed_id();
  return std::make_shared<RealComm>(parts_, std::move(*endpoint), known, rank, size, std::move(whole));
}

}  // namespace

std::unique_ptr<World> make_world(const Settings& settings, std::optional<MeetingPlace> place) {
  return std::make_unique<RealWorld>(settings, std::move(place));
}

}  // namespace r2ccl
