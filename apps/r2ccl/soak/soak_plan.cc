#include "apps/r2ccl/soak/soak_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "apps/r2ccl/perf/perf_data.h"

namespace r2ccl::apps {
namespace {

FaultSpec draw_fault(SeededRandom& random, const SoakPlan& plan, Duration at, Duration quiet_from) {
  constexpr std::array kKinds{FaultKind::kDown,  FaultKind::kCable, FaultKind::kBlackhole,
                              FaultKind::kReset, FaultKind::kSlow,  FaultKind::kFlap};
  FaultSpec fault;
  fault.at.time = at;
  fault.server = {random.below(plan.servers)};
  fault.nic = {static_cast<std::uint8_t>(random.below(plan.nics))};
  fault.kind = kKinds[random.below(kKinds.size())];
  fault.lasting = random.between(Duration(100ms), std::min<Duration>(kSoakFaultTime, quiet_from - at));
  if (fault.kind == FaultKind::kReset) fault.lasting = 0s;
  if (fault.kind == FaultKind::kSlow) fault.rate_bytes_s = random.between(1'000'000, 20'000'000);
  if (fault.kind == FaultKind::kFlap) fault.period = random.between(Duration(50ms), Duration(500ms));
  return fault;
}

// Whether paths remain between all servers while the latest fault and those before it last.
bool bearable(const std::vector<FaultSpec>& faults, const SoakPlan& plan) {
  std::set<std::pair<std::uint64_t, std::uint8_t>> broken;
  for (const FaultSpec& fault : faults) {
    if (fault.at.time + fault.lasting + kSoakRecovery > faults.back().at.time)
      broken.insert({plan.fabric == Fabric::kRails ? 0 : fault.server.value, fault.nic.value});
  }
  for (std::uint64_t server = 0; server < plan.servers; ++server) {
    const auto count = std::ranges::count(broken, server, &std::pair<std::uint64_t, std::uint8_t>::first);
    if (static_cast<std::uint64_t>(count) >= plan.nics) return false;
  }
  return true;
}

std::uint64_t draw_bytes(SeededRandom& random) {
  const int bits = static_cast<int>(random.below(std::bit_width(kSoakBytesMax)));
  return random.between(std::uint64_t{1} << bits, std::min(kSoakBytesMax, (std::uint64_t{2} << bits) - 1));
}

}  // namespace

std::vector<FaultSpec> soak_faults(const SoakPlan& plan) {
  SeededRandom random(plan.seed);
  const Duration quiet_from = plan.length - plan.length / 10;
  const Duration every = std::max<Duration>(kSoakFaultEvery, plan.length / (kFaultsMax / 2));
  std::vector<FaultSpec> faults;
  for (Duration at = every / 2; at + 200ms < quiet_from; at += random.between(Duration(1ms), 2 * every)) {
    faults.push_back(draw_fault(random, plan, at, quiet_from));
    if (!bearable(faults, plan)) faults.pop_back();
  }
  return faults;
}

PerfCase soak_case(SeededRandom& random, std::uint32_t rank, std::uint32_t ranks) {
  constexpr std::array kTypes{DataType::kInt8,    DataType::kUint8,   DataType::kInt32,   DataType::kUint32,
                              DataType::kInt64,   DataType::kUint64,  DataType::kFloat16, DataType::kFloat32,
                              DataType::kFloat64, DataType::kBfloat16};
  constexpr std::array kOps{ReduceName::kSum, ReduceName::kProd, ReduceName::kMax,
                            ReduceName::kMin, ReduceName::kAvg,  ReduceName::kPreMulSum};
  const auto collectives = perf_collectives();
  PerfCase one;
  one.collective = &collectives[random.below(collectives.size())];
  one.type = kTypes[random.below(kTypes.size())];
  one.op = {kOps[random.below(kOps.size())]};
  one.root = static_cast<std::uint32_t>(random.below(ranks));
  one.count = count_for(*one.collective, draw_bytes(random), size_of(one.type), ranks);
  one.in_place = random.chance(0.5) && one.collective->in_place;
  one.rank = rank;
  one.ranks = ranks;
  if (!one.collective->reduces) one.op = {};
  if (one.op.name == ReduceName::kPreMulSum) one.op.scalar = premul_scalar(one.type, ranks, rank);
  return one;
}

}  // namespace r2ccl::apps
