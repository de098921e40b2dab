#include "sim/net/sim_process.h"

#include <fmt/format.h>

#include <algorithm>

namespace r2ccl::sim {

namespace {

EngineConfig engine_config(std::size_t index, const Scenario& scenario) {
  EngineConfig config;
  config.session = scenario.session;
  config.server = {std::uint64_t{scenario.server_of(index)} + 1};
  config.rank = static_cast<std::uint32_t>(index);
  config.host = fmt::format("server{}", scenario.server_of(index));
  config.management_nic = config.place_nic = scenario.management_nic();
  return config;
}

}  // namespace

void SimLog::write(LogLevel, std::string_view line) {
  trace_(fmt::format("{:12.6f} process {} log: {}", to_seconds(world_.now().time_since_epoch()), process_, line));
}

SimProcess::SimProcess(std::size_t index, const Scenario& scenario, SimWorld& world, Network& network, Referee& referee,
                       Workload& workload, CollectiveBoard& board)
    : index_(index),
      scenario_(scenario),
      world_(world),
      network_(network),
      referee_(referee),
      workload_(workload),
      random_(world.random().fork()),
      log_(index, scenario.trace, world),
      id_{random_.draw() | 1},
      dialer_(network, scenario.server_of(index)),
      telemetry_(16),
      provider_(std::make_unique<StreamProvider>(dialer_, keyring_, random_, id_, StreamLimits{})),
      engine_(std::make_unique<Engine>(Env{world, random_, log_}, *provider_, keyring_, telemetry_, id_,
                                       engine_config(index, scenario))),
      slot_(world.add(*this)) {
  dialer_.set_process(slot_);
  telemetry_.set_listener(this);
  make_members(board);
}

SimProcess::~SimProcess() {
  telemetry_.set_listener(nullptr);
}

Result<UniqueId> SimProcess::host_root() {
  return engine_->host_at({.nic = scenario_.management_nic()}, scenario_.processes);
}

void SimProcess::listen() {
  if (const Status listening = engine_->listen(); !listening)
    referee_.violation("listen failed: " + listening.error().what);
}

void SimProcess::join(const UniqueId& id) {
  engine_->join(id);
}

bool SimProcess::ready() const {
  if (!scenario_.collectives) return engine_->ready();
  return std::ranges::all_of(members_, [](const auto& member) { return member->ready(); });
}

void SimProcess::finish(Instant now) {
  for (const auto& member : members_) member->destroy();
  engine_->finish(now);
  world_.wake(slot_);
}

void SimProcess::make_members(CollectiveBoard& board) {
  if (!scenario_.collectives) return;
  for (std::size_t i = 0; i < scenario_.collectives->communicators.size(); ++i) {
    const auto& ranks = scenario_.collectives->communicators[i].process;
    const auto rank = static_cast<std::uint32_t>(std::ranges::find(ranks, index_) - ranks.begin());
    members_.push_back(std::make_unique<CommMember>(scenario_, i, rank, board, referee_, ids_));
  }
}

Turn SimProcess::step_members(Instant now) {
  Turn turn;
  for (const auto& member : members_) {
    const std::uint64_t before = member->trace();
    turn.merge(member->step(*engine_, Env{world_, random_, log_}, start_, now));
    if (member->trace() != before) world_.trace(member->trace());
  }
  return turn;
}

void SimProcess::open_sessions() {
  for (std::size_t peer = 0; peer < ids_.size(); ++peer) {
    sessions_.push_back(peer == index_ ? nullptr : &engine_->session(ids_[peer]));
    if (peer == index_) continue;
    for (std::uint8_t group = 0; group < kGroups; ++group) sessions_.back()->join(sim_group(group), Secret{});
  }
}

Turn SimProcess::step(Instant now) {
  Turn turn = engine_->step(now);
  turn.merge(step_members(now));
  if (members_.empty() && sessions_.empty() && engine_->ready()) {
    open_sessions();
    turn.moved = true;
  }
  if (start_ != kNever) {
    if (!sessions_.empty()) turn.merge(workload_.post_due(index_, start_, now, sessions_));
    turn.merge(run_actions(now));
  }
  turn.moved |= take_completions();
  if (scenario_.collectives && scenario_.collectives->leave) leave_if_done(now);
  if (on_turn_) on_turn_();
  return turn;
}

void SimProcess::leave_if_done(Instant now) {
  if (!leaving_ && std::ranges::all_of(members_, [](const auto& member) { return member->finished(); })) {
    leaving_ = true;
    left_amid_faults_ = driver_ != nullptr && driver_->faults_begun() > 0 && now < start_ + scenario_.plan.quiet_by();
    referee_.on_leave(index_);
    finish(now);
  } else if (leaving_ && finished()) {
    network_.drop_process(dialer_, false);
    world_.kill(slot_);
  }
}

bool SimProcess::take_completions() {
  bool any = false;
  for (std::size_t peer = 0; peer < sessions_.size(); ++peer) {
    if (sessions_[peer] == nullptr) continue;
    for (const Completion& completion : sessions_[peer]->take_completions()) {
      workload_.on_completion(index_, peer, completion);
      any = true;
    }
    check_bounds(*sessions_[peer]);
  }
  return any;
}

Turn SimProcess::run_actions(Instant now) {
  Turn turn;
  for (; next_action_ < scenario_.actions.size(); ++next_action_) {
    const PlannedAction& action = scenario_.actions[next_action_];
    if (action.process != index_) continue;
    if (start_ + action.at > now) {
      turn.next = start_ + action.at;
      return turn;
    }
    turn.moved = true;
    if (scenario_.trace) scenario_.trace(to_text(action));
    if (action.kind == PlannedAction::Kind::kDrain) engine_->drain({action.subject}, now);
    if (action.kind == PlannedAction::Kind::kUndrain) engine_->undrain({action.subject}, now);
    if (action.kind == PlannedAction::Kind::kAbort) abort(action.subject);
  }
  return turn;
}

void SimProcess::abort(std::uint8_t subject) {
  if (scenario_.collectives) return members_[subject]->abort();
  for (Session* session : sessions_)
    if (session != nullptr) session->abort(sim_group(subject));
  take_completions();
  workload_.on_abort(index_, subject);
}

void SimProcess::check_bounds(Session& session) {
  if (!random_.chance(0.01)) return;
  const SessionLimits& limits = scenario_.session.limits;
  for (const PathView& path : session.paths()) {
    // A chunk may be there twice: first sent, and hedged back from another path.
    if (path.in_flight_bytes > 2 * limits.chunk_window * limits.chunk_bytes) {
      referee_.violation(
          fmt::format("process {}: path {} holds {} bytes", index_, r2ccl::to_text(path.path), path.in_flight_bytes));
    }
  }
}

void SimProcess::on_event(const Event& event) {
  const auto peer = std::ranges::find(ids_, event.peer);
  if (scenario_.trace) {
    scenario_.trace(fmt::format("{:12.6f} process {} {} path {} epoch {} number {} bytes {} extra {} cause {}",
                                to_seconds(event.at.time_since_epoch()), index_, r2ccl::to_text(event.kind),
                                r2ccl::to_text(event.path), event.epoch.value, event.number, event.bytes, event.extra,
                                r2ccl::to_text(event.cause)));
  }
  world_.trace(static_cast<std::uint64_t>(event.kind) << 56 | event.number);
  if (driver_ != nullptr) driver_->on_telemetry(static_cast<std::uint8_t>(index_), event.kind);
  if (peer == ids_.end()) return;
  const auto peer_index = static_cast<std::size_t>(peer - ids_.begin());
  referee_.on_event(index_, peer_index, event);
  if (!scenario_.watch) return;
  const bool low = id_ < event.peer;
  const NicRef here{scenario_.server_of(index_), (low ? event.path.low : event.path.high).value};
  const NicRef there{scenario_.server_of(peer_index), (low ? event.path.high : event.path.low).value};
  scenario_.watch({index_, peer_index, here, there, event}, network_);
}

}  // namespace r2ccl::sim
