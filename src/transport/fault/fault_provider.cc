#include "transport/fault/fault_provider.h"

#include <fmt/format.h>

#include <algorithm>

namespace r2ccl {

FaultProvider::FaultProvider(Provider& inner, ServerId server, const std::vector<FaultSpec>& specs,
                             Telemetry* telemetry, FaultHooks hooks, const FaultLimits& limits)
    : inner_(inner), server_(server), telemetry_(telemetry), hooks_(std::move(hooks)), limits_(limits) {
  for (const FaultSpec& spec : specs) {
    if (spec.server == server_) add(spec, Instant{});  // times are shifted by the first step
  }
}

FaultProvider::~FaultProvider() = default;

Status FaultProvider::check(const std::vector<FaultSpec>& specs, ServerId server, std::span<const Nic> nics) {
  for (const FaultSpec& spec : specs) {
    if (spec.server != server || std::ranges::find(nics, spec.nic, &Nic::id) != nics.end()) continue;
    return fail(Fault::kMisuse, fmt::format("fault '{}': server {} has {} NICs, numbered from 0", to_text(spec),
                                            server.value, nics.size()));
  }
  return {};
}

const std::shared_ptr<FaultNic>& FaultProvider::shared_nic(NicId id) {
  std::shared_ptr<FaultNic>& state = nics_[id];
  if (!state) {
    state = std::make_shared<FaultNic>();
    state->id = id;
    const auto known = std::ranges::find(inner_.nics(), id, &Nic::id);
    state->name = known == inner_.nics().end() ? std::to_string(id.value) : known->name;
  }
  return state;
}

FaultNic& FaultProvider::nic(NicId id) {
  return *shared_nic(id);
}

bool FaultProvider::cut(NicId id) const {
  const auto found = nics_.find(id);
  return found != nics_.end() && found->second->cut;
}

// ---- faults -----------------------------------------------------------------------------------------------------

void FaultProvider::add(const FaultSpec& spec, Instant zero) {
  Planned fault{.spec = spec, .number = ++injected_};
  if (spec.at.unit == FaultStart::Unit::kTime) fault.start = zero + spec.at.time;
  faults_.push_back(fault);
}

Status FaultProvider::inject(const FaultSpec& spec, Instant now) {
  if (spec.server != server_) {
    return fail(Fault::kMisuse, fmt::format("fault '{}' is not for server {}", to_text(spec), server_.value));
  }
  if (Status status = check({spec}, server_, inner_.nics()); !status) return status;
  now_ = now;
  // Before the first step, times are relative to it.
  add(spec, started_ ? now : Instant{});
  if (started_) advance(now);
  return {};
}

void FaultProvider::on_operation(std::uint64_t operation, Instant now) {
  for (Planned& fault : faults_) {
    const FaultStart& at = fault.spec.at;
    if (at.unit == FaultStart::Unit::kOperation && fault.start == kNever && at.operation <= operation)
      fault.start = now;
  }
  if (started_) advance(now);
}

void FaultProvider::on_bytes_moved(std::uint32_t share_ppm, Instant now) {
  for (Planned& fault : faults_) {
    const FaultStart& at = fault.spec.at;
    if (at.unit == FaultStart::Unit::kBytes && fault.start == kNever && at.share_ppm <= share_ppm) fault.start = now;
  }
  if (started_) advance(now);
}

// Begins what is due and only then ends what is over, so that a fault shorter than the time between two steps still
// happens.
bool FaultProvider::advance(Instant now) {
  bool changed = false;
  for (Planned& fault : faults_) {
    if (fault.active || fault.start > now) continue;
    begin(fault, now);
    changed = true;
  }
  changed |= apply(now);
  const auto over = [&](const Planned& fault) {
    if (!fault.active || fault.heal > now) return false;
    if (fault.spec.kind != FaultKind::kReset) record(EventKind::kFaultHealed, fault, now);
    return true;
  };
  if (std::erase_if(faults_, over) > 0) {
    apply(now);
    changed = true;
  }
  return changed;
}

void FaultProvider::begin(Planned& fault, Instant now) {
  fault.active = true;
  record(EventKind::kFaultInjected, fault, now);
  if (fault.spec.kind == FaultKind::kReset) {
    fault.heal = now;
    for (const auto& [number, link] : nic(fault.spec.nic).links) link->reset();
    return;
  }
  // Counts from now, not from when it was due, so that a late step does not make it shorter.
  fault.start = now;
  if (fault.spec.lasting > 0s) fault.heal = now + fault.spec.lasting;
}

bool FaultProvider::is_pulled(const Planned& fault, Instant now) {
  return (now - fault.start) / fault.spec.period % 2 == 0;
}

// ---- what they do to NICs ---------------------------------------------------------------------------------------

bool FaultProvider::apply(Instant now) {
  for (const Planned& fault : faults_) shared_nic(fault.spec.nic);
  bool changed = false;
  for (const auto& [id, state] : nics_) changed |= apply(*state, now);
  return changed;
}

bool FaultProvider::apply(FaultNic& state, Instant now) {
  bool cut = false, carrier_off = false, failing = false;
  std::uint64_t rate_bytes_s = 0;
  for (const Planned& fault : faults_) {
    if (!fault.active || fault.spec.nic != state.id) continue;
    const FaultKind kind = fault.spec.kind;
    const bool pulled = kind == FaultKind::kFlap && is_pulled(fault, now);
    cut |= kind == FaultKind::kDown || kind == FaultKind::kCable || kind == FaultKind::kBlackhole || pulled;
    carrier_off |= kind == FaultKind::kDown || kind == FaultKind::kCable || pulled;
    failing |= kind == FaultKind::kDown;
    if (kind == FaultKind::kSlow && (rate_bytes_s == 0 || fault.spec.rate_bytes_s < rate_bytes_s)) {
      rate_bytes_s = fault.spec.rate_bytes_s;
    }
  }
  const bool changed = cut != state.cut || carrier_off != state.carrier_off || failing != state.failing ||
                       rate_bytes_s != state.rate_bytes_s;
  if (cut != state.cut) set_cut(state, cut, now);
  if (failing && !state.failing) {
    for (const auto& [number, link] : state.links) link->fail_locally();
  }
  state.failing = failing;
  if (rate_bytes_s != state.rate_bytes_s) {
    for (const auto& [number, link] : state.links) link->begin_metering(now);
    state.rate_bytes_s = rate_bytes_s;
    state.out.start(now, rate_bytes_s, limits_.slow_burst_bytes);
    state.in.start(now, rate_bytes_s, limits_.slow_burst_bytes);
  }
  if (carrier_off != state.carrier_off) {
    state.carrier_off = carrier_off;
    tell(state.id, !carrier_off);
  }
  return changed;
}

void FaultProvider::set_cut(FaultNic& state, bool cut, Instant now) {
  state.cut = cut;
  if (cut) state.cut_since = now;
  for (const auto& [number, link] : state.links) link->set_cut(cut);
  if (hooks_.deafen_nic) hooks_.deafen_nic(state.id, cut);
  if (!cut) std::erase_if(vanished_, [&](const auto& link) { return link->nic() == state.id; });
}

void FaultProvider::tell(NicId id, bool up) {
  if (events_.size() == limits_.events_max) events_.pop_front();
  events_.push_back({id, up});
}

void FaultProvider::record(EventKind kind, const Planned& fault, Instant now) {
  if (telemetry_ == nullptr) return;
  Event event;
  event.at = now;
  event.kind = kind;
  event.number = fault.number;
  event.extra = fault.spec.nic.value;
  telemetry_->record(event);
}

// ---- provider ---------------------------------------------------------------------------------------------------

Result<std::unique_ptr<Link>> FaultProvider::connect(NicId id, const Address& remote, const Hello& hello, Instant now) {
  const std::shared_ptr<FaultNic>& state = shared_nic(id);
  if (state->cut) return std::make_unique<FaultLink>(state, hello, now, limits_);
  Result<std::unique_ptr<Link>> link = inner_.connect(id, remote, hello, now);
  if (!link) return link;
  return std::make_unique<FaultLink>(state, std::move(*link), now, limits_);
}

std::unique_ptr<Link> FaultProvider::accept() {
  while (std::unique_ptr<Link> link = inner_.accept()) {
    const std::shared_ptr<FaultNic>& state = shared_nic(link->nic());
    auto wrapped = std::make_unique<FaultLink>(state, std::move(link), now_, limits_);
    if (!state->cut) return wrapped;
    if (vanished_.size() == limits_.vanished_max) vanished_.pop_front();
    vanished_.push_back(std::move(wrapped));
  }
  return nullptr;
}

std::optional<NicEvent> FaultProvider::next_event() {
  if (events_.empty()) return inner_.next_event();
  const NicEvent event = events_.front();
  events_.pop_front();
  return event;
}

Turn FaultProvider::step(Instant now) {
  now_ = now;
  if (!started_) {
    started_ = true;
    for (Planned& fault : faults_) {
      if (fault.spec.at.unit == FaultStart::Unit::kTime) fault.start = now + fault.spec.at.time;
    }
  }
  for (const auto& [id, state] : nics_) {
    state->out.refill(now);
    state->in.refill(now);
  }
  Turn turn;
  turn.moved = advance(now) || !events_.empty();  // a fault between two steps may have left events
  turn.merge(inner_.step(now));
  turn.next = std::min(turn.next, next_change(now));
  return turn;
}

Instant FaultProvider::next_change(Instant now) const {
  Instant next = kNever;
  for (const Planned& fault : faults_) {
    if (!fault.active) {
      next = std::min(next, fault.start);
      continue;
    }
    next = std::min(next, fault.heal);
    if (fault.spec.kind == FaultKind::kFlap) {
      next = std::min(next, fault.start + ((now - fault.start) / fault.spec.period + 1) * fault.spec.period);
    }
  }
  for (const auto& [id, state] : nics_) {
    if (state->rate_bytes_s == 0 || state->links.empty()) continue;
    for (const TokenBucket* bucket : {&state->out, &state->in}) {
      if (bucket->empty()) next = std::min(next, std::max(now, bucket->next()));
    }
  }
  return next;
}

}  // namespace r2ccl
