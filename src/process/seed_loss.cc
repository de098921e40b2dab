#include "process/seed_loss.h"

#include <fmt/format.h>

#include <algorithm>

namespace r2ccl {

PlannedLoss plan_loss(const Settings& settings, std::span<const ProcessInfo> members) {
  const ProcessInfo& first = members.front();
  const auto nothing = [&](std::string_view why) {
    return PlannedLoss{{}, fmt::format("R2CC_MODE={}: no NIC is lost, {}.", settings.seed_mode, why)};
  };
  const auto beside = [&](const ProcessInfo& other) { return other.server == first.server; };
  if (std::ranges::all_of(members, beside)) return nothing("because all ranks are on one server");
  if (first.ports.size() < 2) return nothing("because rank 0's server has no second one");
  const ProcessInfo::Port& port = first.ports[1];
  const bool in_a_call = settings.seed_loss == SeedLoss::kInACall;
  return {
      FaultSpec{.at = {}, .server = first.server, .nic = port.nic, .kind = FaultKind::kCable},
      fmt::format("R2CC_MODE={}: NIC {} ({}) of rank 0's server, {}, loses its cable {} and never gets it back; plans "
                  "answer as R2CCL_MODE={} has it. R2CCL_FAULT or R2CCL_MODE would say otherwise.",
                  settings.seed_mode, port.nic.value, port.name, first.host,
                  in_a_call ? "in the middle of a call" : "before the first call", settings.mode)};
}

bool is_middle(const Reached& reached, std::uint64_t bytes) {
  return reached.share_ppm >= 500'000 && (bytes >= kLargeCallBytes || reached.operation > kSmallCallsMost);
}

}  // namespace r2ccl
