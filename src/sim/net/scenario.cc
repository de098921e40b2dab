#include "sim/net/scenario.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"

namespace r2ccl::sim {

namespace {

constexpr Duration kPeerTimeout = 8s;
constexpr Duration kFaultLastsMax = 2s;
constexpr double kLethalShare = 0.08;
constexpr double kCalmShare = 0.06;
constexpr double kHarmlessShare = 0.10;
constexpr double kNicLostShare = 0.35;
constexpr double kThemeShare = 0.35;
constexpr double kAbortShare = 0.1;
constexpr double kDrainShare = 0.15;
constexpr double kEarlyShare = 0.1;
constexpr double kCollectivesShare = 1.0 / 3;
constexpr Duration kSlowHeartbeat = 30s;
constexpr Duration kPatientPeerTimeout = 60s;

NetworkConfig draw_network(SimRandom& random) {
  NetworkConfig network;
  network.fabric = random.chance(0.3) ? Fabric::kRails : Fabric::kRouted;
  network.rate_bytes_s = static_cast<double>(random.log_uniform(2e6, 50e6));
  network.delay = random.between(10us, 300us);
  network.jitter = random.chance(0.7) ? static_cast<double>(random.between(0, 30)) / 10 : 0;
  network.segment_bytes = random.log_uniform(500, 9000);
  network.send_buffer = random.chance(0.4) ? random.between(3000, 16000) : random.between(16'000, 200'000);
  network.receive_buffer = random.chance(0.4) ? random.between(3000, 16000) : random.between(16'000, 200'000);
  network.split_reads = random.chance(0.6);
  network.split_writes = random.chance(0.6);
  return network;
}

SessionConfig draw_session(SimRandom& random, Fabric fabric, const Rules& rules) {
  SessionConfig session;
  session.rules = rules;
  session.fabric = fabric;
  SessionLimits& limits = session.limits;
  limits.chunk_bytes = random.log_uniform(512, 8192);
  limits.peer_timeout = kPeerTimeout;
  limits.copy_bytes_max = random.chance(0.3) ? 0 : random.between(64, 2048);
  limits.eager_message_max = std::max(limits.copy_bytes_max, random.chance(0.5) ? random.between(64, 32768) : 0);
  // Landings are watched in the application's memory alone; in a session's or a communicator's own a late one would
  // only be a crash.
  if (!rules.redirect_landing) limits.eager_message_max = 0;
  limits.replay_buffer_bytes = random.chance(0.3) ? 4096 : 64 * 1024;
  limits.eager_bytes = random.between(4096, 64 * 1024);
  limits.chunk_window = random.chance(0.3) ? random.between(4, 16) : 256;
  limits.path_in_flight_min = random.between(2048, 64 * 1024);
  limits.first_rate_bytes_s = 10e6;
  return session;
}

void draw_messages(SimRandom& random, Scenario& scenario, Duration window) {
  const std::size_t count = random.between(5, 60);
  const std::size_t streams = random.between(1, 4);
  const bool both_ways = random.chance(0.7);
  const bool eager = random.chance(0.6);
  const bool large = random.chance(0.6);
  const bool unmapped = random.chance(0.6);
  for (std::size_t i = 0; i < count; ++i) {
    PlannedMessage message;
    message.from = static_cast<std::uint8_t>(random.below(both_ways ? scenario.processes : scenario.processes - 1));
    message.to = static_cast<std::uint8_t>(both_ways ? (message.from + random.between(1, scenario.processes - 1)) %
                                                           scenario.processes
                                                     : scenario.processes - 1);
    message.stream = static_cast<std::uint8_t>(random.below(streams));
    message.bytes = random.chance(0.1) ? 0 : static_cast<std::uint32_t>(random.log_uniform(1, large ? 65536 : 6000));
    message.posted_bytes =
        message.bytes + (random.chance(0.2) ? static_cast<std::uint32_t>(random.between(1, 100)) : 0);
    message.tag = random.draw();
    message.send_at = random.between(Duration{}, window);
    message.receive_at =
        eager && random.chance(0.5) ? message.send_at + random.between(1us, 30ms) : random.between(Duration{}, window);
    message.mapped_send = !unmapped || random.chance(0.5);
    message.mapped_receive = !unmapped || random.chance(0.5);
    scenario.messages.push_back(message);
  }
}

void draw_abort(SimRandom& random, Scenario& scenario, Duration window) {
  if (!random.chance(kAbortShare)) return;
  for (PlannedMessage& message : scenario.messages) message.group = static_cast<std::uint8_t>(random.below(kGroups));
  scenario.actions.push_back({.kind = PlannedAction::Kind::kAbort,
                              .at = random.between(Duration{}, window),
                              .process = static_cast<std::uint8_t>(random.below(scenario.processes)),
                              .subject = scenario.collectives ? std::uint8_t{0} : std::uint8_t{1}});
}

void draw_actions(SimRandom& random, Scenario& scenario, Duration window) {
  draw_abort(random, scenario, window);
  if (random.chance(kDrainShare)) {
    for (std::uint64_t i = random.between(1, 3); i > 0; --i) {
      PlannedAction action{.kind = PlannedAction::Kind::kDrain,
                           .at = random.between(Duration{}, window),
                           .process = static_cast<std::uint8_t>(random.below(scenario.processes)),
                           .subject = static_cast<std::uint8_t>(random.below(scenario.data_nics))};
      scenario.actions.push_back(action);
      action.kind = PlannedAction::Kind::kUndrain;
      action.at += random.between(1ms, 500ms);
      scenario.actions.push_back(action);
    }
  }
  std::ranges::stable_sort(scenario.actions, {}, &PlannedAction::at);
}

// What a seed may do to its network.
constexpr SimFaultKind kHealing[] = {
    SimFaultKind::kCut,        SimFaultKind::kCutAll,        SimFaultKind::kBlackHole,
    SimFaultKind::kOneWayLoss, SimFaultKind::kPacketLoss,    SimFaultKind::kDelaySpike,
    SimFaultKind::kSlowDown,   SimFaultKind::kCorruptHeader, SimFaultKind::kCorruptPayload,
    SimFaultKind::kNicDown,    SimFaultKind::kServerCutOff,  SimFaultKind::kPause};
constexpr SimFaultKind kHarmless[] = {SimFaultKind::kDelaySpike, SimFaultKind::kSlowDown, SimFaultKind::kPause};
constexpr EventKind kAims[] = {EventKind::kPathDown,    EventKind::kPathDown,      EventKind::kFenceSent,
                               EventKind::kFenceSent,   EventKind::kFenceReceived, EventKind::kChunkReplayed,
                               EventKind::kPathUp,      EventKind::kPathSuspect,   EventKind::kChunkHedged,
                               EventKind::kChunkPlaced, EventKind::kChunkSent};

struct Drawing {
  SimRandom& random;
  const Scenario& scenario;
  Duration window;
  bool harmless;
  bool control;   // the management NIC suffers too
  bool one_rail;  // most faults hit the same NICs
  bool triggers;
};

NicRef draw_nic(Drawing& d) {
  const std::size_t nics = d.scenario.data_nics + (d.control ? 1 : 0);
  std::uint64_t nic = d.random.below(nics);
  if (d.one_rail && d.random.chance(0.6)) nic = 0;
  return {static_cast<std::uint8_t>(d.random.below(d.scenario.servers())), static_cast<std::uint8_t>(nic)};
}

// One of the processes of the server.
std::uint8_t draw_local(Drawing& d, std::uint8_t server) {
  const std::size_t first = d.scenario.first_process(server);
  return static_cast<std::uint8_t>(d.random.below(std::min(d.scenario.per_server, d.scenario.processes - first)));
}

void draw_cut(Drawing& d, PlannedFault& fault) {
  const auto notice = [&] { return d.random.chance(0.3) ? Duration{} : d.random.between(1us, 20ms); };
  fault.notice_nic = notice();
  fault.notice_other = d.random.chance(0.3) ? Network::kNeverNotices : notice();
  if (d.random.chance(0.5)) std::swap(fault.notice_nic, fault.notice_other);
  fault.late_prefix = d.random.chance(0.6);
}

PlannedFault draw_fault(Drawing& d, SimFaultKind kind) {
  SimRandom& random = d.random;
  PlannedFault fault{.kind = kind};
  fault.nic = draw_nic(d);
  const std::size_t servers = d.scenario.servers();
  R2CCL_ASSERT(servers > 1, "faults lie between servers");
  fault.other.server = static_cast<std::uint8_t>((fault.nic.server + random.between(1, servers - 1)) % servers);
  const bool rails = d.scenario.network.fabric == Fabric::kRails || fault.nic.nic == d.scenario.data_nics;
  fault.other.nic =
      rails || random.chance(0.6) ? fault.nic.nic : static_cast<std::uint8_t>(random.below(d.scenario.data_nics));
  fault.at = random.between(Duration{}, d.window + d.window / 4);
  fault.lasts = Duration(random.log_uniform(200e3, static_cast<double>(kFaultLastsMax.count())));
  if (kind == SimFaultKind::kCut || kind == SimFaultKind::kCutAll) {
    draw_cut(d, fault);
    fault.lasts = {};
  }
  if (kind == SimFaultKind::kPause && d.scenario.per_server > 1) fault.local = draw_local(d, fault.nic.server);
  if (kind == SimFaultKind::kPacketLoss) fault.amount = static_cast<double>(random.between(1, 30)) / 100;
  if (kind == SimFaultKind::kDelaySpike) fault.amount = static_cast<double>(random.between(1, d.harmless ? 20 : 140));
  if (kind == SimFaultKind::kSlowDown) fault.amount = static_cast<double>(random.between(5, 50)) / 100;
  if (d.triggers && random.chance(0.5)) {
    fault.trigger = Trigger{.kind = kAims[random.below(std::size(kAims))],
                            .process = static_cast<std::uint8_t>(random.below(d.scenario.processes)),
                            .nth = static_cast<int>(random.between(1, random.chance(0.5) ? 3 : 30))};
    fault.at = random.chance(0.5) ? Duration{} : random.between(1us, 2ms);
  }
  return fault;
}

void draw_flap(Drawing& d, FaultPlan& plan) {
  PlannedFault fault = draw_fault(d, d.random.chance(0.5) ? SimFaultKind::kNicDown : SimFaultKind::kBlackHole);
  fault.trigger.reset();
  fault.lasts = d.random.between(1ms, 200ms);
  const Duration pause = d.random.between(1ms, 200ms);
  for (std::uint64_t i = d.random.between(2, 4); i > 0; --i) {
    plan.faults.push_back(fault);
    fault.at += fault.lasts + pause;
  }
}

// Combinations that chance alone brings up too rarely.
enum class Theme : std::uint8_t {
  kNone,
  kLostNotice,   // a NIC is gone for good and the first notice of it is lost everywhere; heartbeats do not help
  kStaleNotice,  // notices about an old epoch arrive after the path is back
  kLateLanding,  // a path falls behind in the middle of a chunk, which a second copy overtakes
};

void lose_notices(Drawing& d, Scenario& scenario) {
  scenario.session.limits.heartbeat = kSlowHeartbeat;
  scenario.session.limits.peer_timeout = kPatientPeerTimeout;
  PlannedFault lost = draw_fault(d, SimFaultKind::kNicLost);
  lost.trigger.reset();
  lost.at = d.random.between(Duration{}, d.window);
  lost.nic.nic = static_cast<std::uint8_t>(lost.nic.nic % scenario.data_nics);
  lost.lasts = {};
  lost.amount = 1;
  scenario.plan.faults.push_back(lost);
  PlannedFault all = draw_fault(d, SimFaultKind::kCutAll);
  all.nic.server = lost.nic.server;
  all.other.server = static_cast<std::uint8_t>((lost.nic.server + 1) % scenario.servers());
  all.trigger = Trigger{.kind = EventKind::kFenceSent, .process = scenario.first_process(lost.nic.server)};
  all.at = {};
  all.late_prefix = false;
  scenario.plan.faults.push_back(all);
}

void delay_notices(Drawing& d, Scenario& scenario) {
  const auto management = static_cast<std::uint8_t>(scenario.data_nics);
  const auto server = static_cast<std::uint8_t>(d.random.below(scenario.servers()));
  for (std::uint64_t i = d.random.between(1, 3); i > 0; --i) {
    PlannedFault cut = draw_fault(d, SimFaultKind::kCut);
    cut.trigger.reset();
    PlannedFault hole = draw_fault(d, d.random.chance(0.5) ? SimFaultKind::kBlackHole : SimFaultKind::kDelaySpike);
    hole.trigger.reset();
    hole.nic = {server, management};
    hole.at = std::max(cut.at - 1ms, Duration{});
    hole.lasts = d.random.between(100ms, 700ms);
    if (hole.kind == SimFaultKind::kDelaySpike) hole.amount = static_cast<double>(d.random.between(100, 700));
    scenario.plan.faults.push_back(hole);
    scenario.plan.faults.push_back(cut);
  }
}

void delay_landings(Drawing& d, Scenario& scenario) {
  scenario.network.segment_bytes = d.random.between(400, 900);
  scenario.session.limits.chunk_bytes = d.random.between(4096, 8192);
  for (std::uint64_t i = d.random.between(2, 6); i > 0; --i) {
    PlannedFault spike = draw_fault(d, SimFaultKind::kDelaySpike);
    spike.trigger = Trigger{.kind = EventKind::kChunkSent,
                            .process = scenario.first_process(spike.nic.server),
                            .nth = static_cast<int>(d.random.between(1, 40))};
    spike.nic.nic = static_cast<std::uint8_t>(d.random.below(scenario.data_nics));
    spike.at = d.random.between(10us, 3ms);
    spike.lasts = d.random.between(5ms, 100ms);
    spike.amount = static_cast<double>(d.random.between(26, 140));
    scenario.plan.faults.push_back(spike);
  }
}

void draw_theme(Drawing& d, Scenario& scenario) {
  if (d.harmless || scenario.data_nics < 2 || !d.random.chance(kThemeShare)) return;
  switch (static_cast<Theme>(d.random.between(1, 3))) {
    case Theme::kNone:
      return;
    case Theme::kLostNotice:
      return lose_notices(d, scenario);
    case Theme::kStaleNotice:
      return delay_notices(d, scenario);
    case Theme::kLateLanding:
      return delay_landings(d, scenario);
  }
}

bool has_lost_nic(const FaultPlan& plan) {
  return std::ranges::any_of(plan.faults,
                             [](const PlannedFault& fault) { return fault.kind == SimFaultKind::kNicLost; });
}

void draw_plan(SimRandom& random, Scenario& scenario, Duration window) {
  scenario.calm = random.chance(kCalmShare);
  if (scenario.calm) return;
  Drawing d{.random = random,
            .scenario = scenario,
            .window = window,
            .harmless = random.chance(kHarmlessShare),
            .control = random.chance(0.3),
            .one_rail = random.chance(0.4),
            .triggers = random.chance(0.5)};
  scenario.never_silent = d.harmless;
  std::vector<SimFaultKind> kinds;
  for (SimFaultKind kind :
       d.harmless ? std::span<const SimFaultKind>(kHarmless) : std::span<const SimFaultKind>(kHealing)) {
    if (random.chance(0.35)) kinds.push_back(kind);
  }
  if (kinds.empty()) kinds.push_back(d.harmless ? SimFaultKind::kSlowDown : SimFaultKind::kCut);
  FaultPlan& plan = scenario.plan;
  plan.trigger_by = 2 * window;
  for (std::uint64_t i = random.between(1, 8); i > 0; --i)
    plan.faults.push_back(draw_fault(d, kinds[random.below(kinds.size())]));
  if (!d.harmless && random.chance(0.15)) draw_flap(d, plan);
  draw_theme(d, scenario);
  if (!d.harmless && scenario.data_nics > 1 && !has_lost_nic(plan) && random.chance(kNicLostShare)) {
    PlannedFault lost = draw_fault(d, SimFaultKind::kNicLost);
    lost.nic.nic = static_cast<std::uint8_t>(lost.nic.nic % scenario.data_nics);
    lost.lasts = {};
    lost.amount = random.chance(0.5) ? 1 : 0;
    plan.faults.push_back(lost);
  }
  if (!d.harmless && random.chance(kLethalShare)) {
    constexpr SimFaultKind kDeaths[] = {SimFaultKind::kProcessDeath, SimFaultKind::kServerDeath,
                                        SimFaultKind::kPartition};
    PlannedFault death{.kind = kDeaths[random.below(3)], .at = random.between(Duration{}, window)};
    death.nic.server = static_cast<std::uint8_t>(random.below(scenario.servers()));
    if (scenario.per_server > 1) death.local = draw_local(d, death.nic.server);
    death.amount = random.chance(0.5) ? 1 : 0;
    plan.faults.push_back(death);
  }
}

}  // namespace

Scenario draw_scenario(std::uint64_t seed, const Rules& rules) {
  // Where a rule that guards memory is broken it must be memory that somebody watches, not a communicator's own.
  const bool guarded = rules.redirect_landing && rules.release_on_receipt;
  // What a seed runs is not drawn from the same numbers as the rest.
  const bool collectives = SimRandom(~seed).chance(kCollectivesShare) && guarded;
  return draw_scenario(seed, collectives ? Load::kCollectives : Load::kMessages, rules);
}

Scenario draw_scenario(std::uint64_t seed, Load load, const Rules& rules) {
  SimRandom random(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.processes = random.chance(0.12) ? 3 : 2;
  if (load == Load::kCollectives) draw_ranks(random, scenario);
  scenario.data_nics = random.between(1, 4);
  scenario.network = draw_network(random);
  scenario.session = draw_session(random, scenario.network.fabric, rules);
  if (random.chance(0.3))
    scenario.scheduling = {.delay_min = 1us, .delay_max = random.between(50us, 2ms), .step_cost = 2us};
  const Duration window = random.between(20ms, 600ms);
  if (load == Load::kMessages) draw_messages(random, scenario, window);
  if (load == Load::kCollectives) scenario.collectives = draw_collectives(random, scenario, window);
  draw_actions(random, scenario, window);
  draw_plan(random, scenario, window);
  // With the root dead nobody could tell that the only NIC is back.
  if (scenario.plan.lethal() && scenario.processes > 2) {
    std::erase_if(scenario.actions,
                  [](const PlannedAction& action) { return action.kind != PlannedAction::Kind::kAbort; });
  }
  scenario.early_faults = !scenario.plan.lethal() && random.chance(kEarlyShare);
  scenario.finish = random.chance(0.7);
  if (scenario.collectives) tame_collectives(scenario);
  return scenario;
}

bool Scenario::aborts(std::uint8_t group) const {
  return std::ranges::any_of(actions, [&](const PlannedAction& action) {
    return action.kind == PlannedAction::Kind::kAbort && action.subject == group;
  });
}

bool Scenario::drains() const {
  return std::ranges::any_of(actions,
                             [](const PlannedAction& action) { return action.kind == PlannedAction::Kind::kDrain; });
}

std::string to_text(const PlannedAction& action) {
  constexpr const char* kNames[] = {"abort of group", "drain of NIC", "undrain of NIC"};
  return fmt::format("{} {} at {:.3f} ms by process {}", kNames[static_cast<int>(action.kind)], action.subject,
                     to_ms(action.at), action.process);
}

std::vector<NamedRules> broken_rules() {
  return {
      {"no fence", {.fence_before_replay = false}},
      {"old epoch accepted", {.check_epoch = false}},
      {"duplicate announced", {.drop_duplicates = false}},
      {"buffer freed on local completion", {.release_on_receipt = false}},
      {"credit not re-sent after a fence", {.resend_credit_after_fence = false}},
      {"only one end's have", {.fence_both_ends = false}},
      {"landing after hand-over", {.redirect_landing = false}},
      {"notice not repeated", {.repeat_notice = false}},
      {"replay from the wrong boundary", {.exact_replay_boundary = false}},
  };
}

}  // namespace r2ccl::sim
