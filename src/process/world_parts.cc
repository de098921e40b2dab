#include "process/world_parts.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <utility>

namespace r2ccl {
namespace {

// A key for places that everybody knows: whoever can reach them may join, unless a secret was set.
Secret secret_of(const std::string& text) {
  return keyed_proof(Secret{}, std::as_bytes(std::span(text)));
}

}  // namespace

Result<std::shared_ptr<RankEndpoint>> WorldParts::endpoint(std::size_t number) {
  const std::lock_guard lock(mutex);
  while (endpoints.size() <= number) {
    auto made = Process::create(settings, {.place = place});
    if (!made) return std::unexpected(made.error());
    Log& log = (*made)->log();
    Driver& driver = (*made)->driver();
    endpoints.push_back(std::make_shared<RankEndpoint>(std::move(*made), StatsWriter(settings, endpoints.size(), log),
                                                       WorkerPlans(worker, [&driver] { driver.nudge(); })));
  }
  return endpoints[number];
}

UniqueId WorldParts::placed_id() const {
  UniqueId id;
  id.secret = secret_of(fmt::format("{}:{}", settings.secret, place->addresses.front().port));
  id.root = id.place = place->addresses;
  if (id.root.size() > UniqueId::kAddressesMax) id.root.resize(UniqueId::kAddressesMax);
  return id;
}

}  // namespace r2ccl
