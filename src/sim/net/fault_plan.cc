#include "sim/net/fault_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace r2ccl::sim {

const char* to_text(SimFaultKind kind) {
  switch (kind) {
    case SimFaultKind::kCut:
      return "cut";
    case SimFaultKind::kCutAll:
      return "cut all";
    case SimFaultKind::kBlackHole:
      return "black-hole";
    case SimFaultKind::kOneWayLoss:
      return "one-way loss";
    case SimFaultKind::kPacketLoss:
      return "packet loss";
    case SimFaultKind::kDelaySpike:
      return "delay spike";
    case SimFaultKind::kSlowDown:
      return "slow-down";
    case SimFaultKind::kCorruptHeader:
      return "corrupt header";
    case SimFaultKind::kCorruptPayload:
      return "corrupt payload";
    case SimFaultKind::kNicDown:
      return "NIC down";
    case SimFaultKind::kNicLost:
      return "NIC lost";
    case SimFaultKind::kServerCutOff:
      return "server cut off";
    case SimFaultKind::kPause:
      return "pause";
    case SimFaultKind::kProcessDeath:
      return "process death";
    case SimFaultKind::kServerDeath:
      return "server death";
    case SimFaultKind::kPartition:
      return "partition";
  }
  return "?";
}

namespace {

std::string notice_text(Duration notice) {
  return notice == Network::kNeverNotices ? "never" : fmt::format("{:.3f} ms", to_ms(notice));
}

bool for_good(SimFaultKind kind) {
  return kind == SimFaultKind::kProcessDeath || kind == SimFaultKind::kServerDeath || kind == SimFaultKind::kPartition;
}

}  // namespace

std::string to_text(const PlannedFault& fault) {
  std::string text = fmt::format("{} at {:.3f} ms", to_text(fault.kind), to_ms(fault.at));
  if (fault.trigger) {
    text += fmt::format(" after {} number {} of process {}", r2ccl::to_text(fault.trigger->kind), fault.trigger->nth,
                        fault.trigger->process);
  }
  text += fmt::format(", server {} NIC {}", fault.nic.server, fault.nic.nic);
  if (fault.local != 0) text += fmt::format(" process {} there", fault.local);
  if (fault.kind == SimFaultKind::kCut || fault.kind == SimFaultKind::kCutAll ||
      fault.kind == SimFaultKind::kOneWayLoss) {
    text += fmt::format(" to server {} NIC {}", fault.other.server, fault.other.nic);
  }
  if (fault.kind == SimFaultKind::kCut || fault.kind == SimFaultKind::kCutAll) {
    text += fmt::format(", noticed after {} and {}{}", notice_text(fault.notice_nic), notice_text(fault.notice_other),
                        fault.late_prefix ? ", late prefix" : "");
  }
  if (fault.amount != 0) text += fmt::format(", amount {:.3f}", fault.amount);
  if (fault.lasts != Duration{}) text += fmt::format(", for {:.3f} ms", to_ms(fault.lasts));
  return text;
}

bool FaultPlan::lethal() const {
  return std::ranges::any_of(faults, [](const PlannedFault& fault) { return for_good(fault.kind); });
}

Duration FaultPlan::quiet_by() const {
  Duration last{};
  for (const PlannedFault& fault : faults) {
    last = std::max(last, (fault.trigger ? trigger_by : Duration{}) + fault.at + fault.lasts);
  }
  return last;
}

FaultDriver::FaultDriver(SimWorld& world, Network& network, const FaultPlan& plan,
                         std::function<void(const PlannedFault&)> on_process_fault)
    : world_(world),
      network_(network),
      plan_(plan),
      on_process_fault_(std::move(on_process_fault)),
      seen_(plan.faults.size()) {
  world_.enrol(*this);
}

void FaultDriver::start() {
  started_ = world_.now();
  for (std::uint32_t i = 0; i < plan_.faults.size(); ++i) {
    if (!plan_.faults[i].trigger) world_.after(plan_.faults[i].at, *this, kBegin, i);
  }
}

void FaultDriver::on_telemetry(std::uint8_t process, EventKind kind) {
  if (started_ == kNever || world_.now() > started_ + plan_.trigger_by) return;
  for (std::uint32_t i = 0; i < plan_.faults.size(); ++i) {
    const auto& trigger = plan_.faults[i].trigger;
    if (!trigger || trigger->process != process || trigger->kind != kind) continue;
    if (++seen_[i] == trigger->nth) world_.after(plan_.faults[i].at, *this, kBegin, i);
  }
}

void FaultDriver::on_event(std::uint32_t kind, std::uint32_t argument) {
  const PlannedFault& fault = plan_.faults[argument];
  apply(fault, kind == kBegin);
  if (kind != kBegin) return;
  ++begun_;
  if (fault.lasts != Duration{}) world_.after(fault.lasts, *this, kEnd, argument);
}

void FaultDriver::for_data_nics(std::uint8_t server, const std::function<void(SimNicState&)>& body) {
  for (std::uint8_t i = 0; i + 1u < network_.nics_per_server(); ++i) body(network_.nic({server, i}));
}

void FaultDriver::cut_all(const PlannedFault& fault) {
  const auto nics = static_cast<std::uint8_t>(network_.nics_per_server());
  for (std::uint8_t a = 0; a < nics; ++a) {
    for (std::uint8_t b = 0; b < nics; ++b) {
      network_.cut({fault.nic.server, a}, {fault.other.server, b}, fault.notice_nic, fault.notice_other,
                   fault.late_prefix);
    }
  }
}

// A fault that ends restores the NIC to health, even if another one like it was still to last: faults overlap in any
// way, but nothing stays broken.
void FaultDriver::apply(const PlannedFault& fault, bool on) {
  SimNicState& nic = network_.nic(fault.nic);
  const auto deafen = [on](SimNicState& state) { state.transmit_loss = state.receive_loss = on ? 1 : 0; };
  switch (fault.kind) {
    case SimFaultKind::kCut:
      if (on) network_.cut(fault.nic, fault.other, fault.notice_nic, fault.notice_other, fault.late_prefix);
      return;
    case SimFaultKind::kCutAll:
      return cut_all(fault);
    case SimFaultKind::kBlackHole:
      return deafen(nic);
    case SimFaultKind::kOneWayLoss:
      return network_.set_pair_loss(fault.nic, fault.other, on ? 1 : 0);
    case SimFaultKind::kPacketLoss:
      nic.transmit_loss = on ? fault.amount : 0;
      return;
    case SimFaultKind::kDelaySpike:
      nic.extra_delay = on ? Duration(static_cast<Duration::rep>(fault.amount * 1e6)) : Duration{};
      return;
    case SimFaultKind::kSlowDown:
      nic.rate_bytes_s = network_.config().rate_bytes_s * (on ? fault.amount : 1);
      return;
    case SimFaultKind::kCorruptHeader:
      nic.corrupt_header = on;
      return;
    case SimFaultKind::kCorruptPayload:
      nic.corrupt_payload = on;
      return;
    case SimFaultKind::kNicDown:
      return network_.set_carrier(fault.nic, !on);
    case SimFaultKind::kNicLost:
      nic.dead = true;
      if (fault.amount > 0) network_.set_carrier(fault.nic, false);
      return;
    case SimFaultKind::kServerCutOff:
      return for_data_nics(fault.nic.server, deafen);
    case SimFaultKind::kPause:
    case SimFaultKind::kProcessDeath:
      if (on) on_process_fault_(fault);
      return;
    case SimFaultKind::kServerDeath:
    case SimFaultKind::kPartition: {
      const bool management = fault.kind == SimFaultKind::kServerDeath || fault.amount > 0;
      for_data_nics(fault.nic.server, [](SimNicState& state) { state.dead = true; });
      if (management)
        network_.nic({fault.nic.server, static_cast<std::uint8_t>(network_.nics_per_server() - 1)}).dead = true;
      return on_process_fault_(fault);
    }
  }
}

}  // namespace r2ccl::sim
