#include "apps/r2ccl/demo/demo_plan.h"

#include <fmt/format.h>

#include "base/units.h"

namespace r2ccl::apps {
namespace {

FaultSpec fault(FaultKind kind, std::uint32_t server, std::uint32_t nic, const DemoPlan& plan) {
  FaultSpec spec;
  spec.kind = kind;
  spec.server = {server % plan.servers};
  spec.nic = {static_cast<std::uint8_t>(nic % plan.nics)};
  return spec;
}

}  // namespace

std::vector<FaultSpec> demo_faults(const DemoPlan& plan) {
  std::vector<FaultSpec> faults{
      fault(FaultKind::kCable, 0, 1, plan),
      fault(FaultKind::kBlackhole, 2, 3, plan),
      fault(FaultKind::kSlow, 1, 2, plan),
  };
  // Some calm before the first; then slots of equal length, in which a fault lasts somewhat more than half the time.
  const Duration calm = plan.length / 10;
  const Duration slot = (plan.length - calm) / static_cast<int>(faults.size());
  for (std::size_t i = 0; i < faults.size(); ++i) {
    FaultSpec& spec = faults[i];
    spec.at.time = std::chrono::floor<std::chrono::milliseconds>(calm + slot * static_cast<int>(i));
    spec.lasting = std::chrono::floor<std::chrono::milliseconds>(slot * 11 / 20);
    if (spec.kind == FaultKind::kSlow) spec.rate_bytes_s = plan.nic_rate_bytes_s / 10;
  }
  return faults;
}

Status check_faults(const DemoPlan& plan) {
  for (const FaultSpec& spec : plan.faults) {
    if (spec.server.value >= plan.servers || spec.nic.value >= plan.nics) {
      return fail(Fault::kMisuse, fmt::format("fault '{}': there are servers 0 to {} with NICs 0 to {}", to_text(spec),
                                              plan.servers - 1, plan.nics - 1));
    }
    if (spec.at.unit != FaultStart::Unit::kTime)
      return fail(Fault::kMisuse, fmt::format("fault '{}': the demo takes times only, e.g. at=2s", to_text(spec)));
  }
  return {};
}

lab::LabPlan lab_plan(const DemoPlan& plan) {
  return {.name = plan.name, .servers = plan.servers, .nics = plan.nics, .rate_bytes_s = plan.nic_rate_bytes_s};
}

Address demo_address(std::uint32_t server, std::uint32_t nic) {
  return Address::v4(127, 0, static_cast<std::uint8_t>(server + 1), static_cast<std::uint8_t>(nic + 1));
}

std::string where_text(const DemoPlan& plan) {
  return fmt::format("{} servers with {} NICs of {}", plan.servers, plan.nics, rate_text(plan.nic_rate_bytes_s));
}

std::string nic_text(const FaultSpec& fault) {
  return fmt::format("server {} NIC {}", fault.server.value, fault.nic.value);
}

std::string begin_text(const FaultSpec& fault) {
  switch (fault.kind) {
    case FaultKind::kDown:
      return "switched off";
    case FaultKind::kCable:
      return "cable pulled";
    case FaultKind::kBlackhole:
      return "silent black-hole";
    case FaultKind::kReset:
      return "connections reset";
    case FaultKind::kSlow:
      return "slowed to " + rate_text(fault.rate_bytes_s);
    case FaultKind::kFlap:
      return "flapping every " + duration_text(fault.period);
  }
  return "";
}

std::string heal_text(const FaultSpec& fault) {
  switch (fault.kind) {
    case FaultKind::kDown:
      return "switched on";
    case FaultKind::kCable:
      return "cable back";
    case FaultKind::kBlackhole:
      return "black-hole closed";
    case FaultKind::kReset:
      return "";
    case FaultKind::kSlow:
      return "full speed again";
    case FaultKind::kFlap:
      return "steady again";
  }
  return "";
}

}  // namespace r2ccl::apps
