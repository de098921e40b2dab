#include "session/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"

namespace r2ccl {

Session::Session(const ProcessInfo& self, const ProcessInfo& peer, KeyId key, Provider& provider, NoticeSender& notices,
                 Log& log, Telemetry& telemetry, const SessionConfig& config)
    : self_(self),
      peer_(peer),
      key_(key),
      provider_(provider),
      notices_(notices),
      log_(log),
      telemetry_(telemetry),
      config_(config),
      connector_(self.process < peer.process),
      outbox_(config_.limits, config_.rules),
      inbox_(config_.limits, config_.rules) {
  for (const auto& port : self_.ports) nics_here_[port.nic] = {};
  for (const auto& port : peer_.ports) nics_there_[port.nic] = {};
  make_rail_paths();
}

Session::~Session() = default;

// ---- streams and messages ------------------------------------------------------------------------------------

void Session::join(GroupId group, const Secret& secret) {
  dirty_ = true;
  if (state_ != SessionState::kActive || groups_.contains(group)) return;
  groups_[group] = {secret, false};
  outbox_.open_group(group);
  inbox_.open_group(group);
  if (const auto early = early_joins_.extract(group)) on_join({group, early.mapped()});
  full_state_due_ = true;
}

Result<std::uint64_t> Session::send(GroupId group, StreamId stream, MemoryRef memory, std::uint64_t tag,
                                    std::uint64_t token, std::optional<NicId> nic) {
  if (state_ == SessionState::kPeerDown || state_ == SessionState::kFinished) return std::unexpected(end_);
  if (state_ == SessionState::kFinishing) return fail(Fault::kGroupEnded, "send after finish");
  dirty_ = true;
  auto sequence = outbox_.send({group, stream}, memory, tag, token, nic);
  if (sequence) ++telemetry_.counters.messages_sent;
  harvest();
  return sequence;
}

Result<std::uint64_t> Session::receive(GroupId group, StreamId stream, MemoryRef memory, std::uint64_t tag,
                                       std::uint64_t token) {
  if (state_ == SessionState::kPeerDown || state_ == SessionState::kFinished) return std::unexpected(end_);
  dirty_ = true;
  auto sequence = inbox_.receive({group, stream}, memory, tag, token);
  harvest();
  return sequence;
}

void Session::abort(GroupId group) {
  dirty_ = true;
  if (groups_.erase(group) == 0) return;
  // Messages that are already whole count as received. If their receipt was put off (see flush_state), it must leave
  // before the end of the group does.
  if (Path* path = control_path(); path != nullptr && std::exchange(state_waits_, false)) send_receipt(*path);
  for (const auto& path : paths_)
    if (path->landing && path->landing_group == group && path->link) path->link->discard_rest();
  const Error error{Fault::kAborted, fmt::format("group {:x} was aborted", group.value)};
  const Outbox::Ended ended = outbox_.end_group(group, error);
  for (const auto& [chunk, copy] : ended.copies) {
    Path* path = find_path(copy.path);
    if (path == nullptr || !path->link || path->epoch != copy.epoch || copy.ticket == 0) continue;
    if (path->link->forget(copy.ticket)) continue;  // half sent or gone: it arrives, or its path is fenced
    path->chunk_in(now_, copy.bytes, false);
    outbox_.on_copy_lost({chunk, copy.number});
  }
  inbox_.end_group(group, error);
  ended_groups_.push_back(group);
  if (ended_groups_.size() > config_.limits.ended_groups_max) ended_groups_.pop_front();
  full_state_due_ = true;
  harvest();
}

std::vector<Completion> Session::take_completions() {
  std::vector<Completion> taken;
  take_completions(taken);
  return taken;
}

void Session::take_completions(std::vector<Completion>& into) {
  harvest();
  into.clear();
  std::swap(into, completions_);
}

void Session::harvest() {
  for (Completion& done : outbox_.completions()) {
    telemetry_.record({.at = now_,
                       .kind = EventKind::kMessageReleased,
                       .peer = peer_.process,
                       .number = done.sequence,
                       .bytes = done.length,
                       .extra = done.stream.value});
    completions_.push_back(std::move(done));
  }
  outbox_.completions().clear();
  for (Completion& done : inbox_.completions()) {
    telemetry_.record({.at = now_,
                       .kind = EventKind::kMessageDelivered,
                       .peer = peer_.process,
                       .number = done.sequence,
                       .bytes = done.length,
                       .extra = done.stream.value});
    ++telemetry_.counters.messages_received;
    completions_.push_back(std::move(done));
  }
  inbox_.completions().clear();
}

std::vector<EarlyMessage> Session::take_early() {
  std::vector<EarlyMessage> early = std::exchange(inbox_.early(), {});
  for (const EarlyMessage& message : early) {
    telemetry_.record({.at = now_,
                       .kind = EventKind::kMessageDelivered,
                       .peer = peer_.process,
                       .bytes = message.length,
                       .extra = message.key.stream.value});
    ++telemetry_.counters.messages_received;
  }
  return early;
}

// ---- driving -------------------------------------------------------------------------------------------------

Turn Session::step(Instant now) {
  now_ = now;
  if (!std::exchange(started_, true)) last_heard_ = now;
  Turn turn;
  const std::size_t had = completions_.size();  // only new completions are a reason to be called again
  busy_ = false;
  if (state_ == SessionState::kPeerDown || state_ == SessionState::kFinished) {
    dirty_ = false;
    next_timer_ = kNever;
    return turn;
  }
  for (const auto& path : paths_) {
    path->blocked = path->posted = false;
    reading_ = path.get();
    if (path->opening) {
      reading_opening_ = true;
      turn.moved |= path->opening->step(now, *this);
    }
    if (path->link) {
      reading_opening_ = false;
      turn.moved |= path->link->step(now, *this);
    }
    reading_ = nullptr;
    if (path->link && path->link->state() == LinkState::kDown) {
      deferred_.push_back({.kind = Deferred::Kind::kFence,
                           .path = path->id,
                           .epoch = path->epoch,
                           .cause = path->link->cause(),
                           .have = {}});
      turn.moved = true;
    }
    step_opening(*path);
  }
  // Most turns of a driver that spins end here: nothing came, nothing was asked for, and no time is up.
  const bool asked = std::exchange(dirty_, false);
  if (!turn.moved && !asked && deferred_.empty() && now < next_timer_) {
    turn.next = next_timer_;
    busy_ = any_opening();
    return turn;
  }
  run_deferred();
  run_timers();
  if (state_ == SessionState::kPeerDown || state_ == SessionState::kFinished) return turn;
  pump();
  flush_state();
  for (const auto& path : paths_) {
    if (!path->posted || !path->link) continue;
    reading_ = path.get();
    reading_opening_ = false;
    turn.moved |= path->link->step(now, *this);
    reading_ = nullptr;
  }
  harvest();
  turn.moved |= !deferred_.empty() || completions_.size() != had;
  turn.next = next_timer_ = next_deadline();
  busy_ = turn.moved || any_opening();
  return turn;
}

void Session::accept(std::unique_ptr<Link> link, Instant now) {
  dirty_ = true;
  now_ = now;
  Path* path = add_path(link->hello().path);
  if (path == nullptr || connector_ || peer_bye_ || !wanted(*path) || state_ == SessionState::kPeerDown ||
      state_ == SessionState::kFinished) {
    link->close();
    return;
  }
  path->opening = std::move(link);
  path->last_attempt = now;
}

void Session::on_notice(ByteView bytes, Instant now) {
  dirty_ = true;
  now_ = now;
  if (bytes.empty()) return;
  const auto type = static_cast<FrameType>(bytes[0]);
  const bool allowed = type == FrameType::kPathDown || type == FrameType::kFenced || type == FrameType::kGroupEnd ||
                       type == FrameType::kNicState;
  if (!allowed || !on_control(type, bytes.subspan(1))) {
    ++telemetry_.counters.refused_frames;
  }
  // last_heard_ stays as it is: only what comes over a path counts against the peer time-out.
}

void Session::on_control_gone() {
  control_gone_ = dirty_ = true;
}
void Session::on_control_back() {
  control_gone_ = false;
}

void Session::on_nic_event(const NicEvent& event, Instant now) {
  dirty_ = true;
  now_ = now;
  const auto found = nics_here_.find(event.nic);
  if (found == nics_here_.end() || found->second.carrier == event.up) return;
  found->second.carrier = event.up;
  ++found->second.version;
  full_state_due_ = true;
  nic_news_at_ = now;
  for (const auto& path : paths_) {
    if (path->here != event.nic) continue;
    if (event.up) {
      path->comeback.on_hint(now);
    } else if (path->link) {
      deferred_.push_back({.kind = Deferred::Kind::kFence,
                           .path = path->id,
                           .epoch = path->epoch,
                           .cause = Cause::kCarrier,
                           .have = {}});
    }
  }
}

// ---- maintenance ---------------------------------------------------------------------------------------------

void Session::drain(NicId nic, Instant now) {
  dirty_ = true;
  now_ = now;
  const auto found = nics_here_.find(nic);
  if (found == nics_here_.end() || std::exchange(found->second.drained, true)) return;
  ++drained_;
  ++found->second.version;
  full_state_due_ = true;
  nic_news_at_ = now;
}

void Session::undrain(NicId nic, Instant now) {
  dirty_ = true;
  now_ = now;
  const auto found = nics_here_.find(nic);
  if (found == nics_here_.end() || !std::exchange(found->second.drained, false)) return;
  --drained_;
  ++found->second.version;
  full_state_due_ = true;
  nic_news_at_ = now;
  for (const auto& path : paths_) {
    if (path->here == nic) {
      path->peer_idle = path->idle_told = false;
      path->comeback.on_hint(now);
    }
  }
}

void Session::finish(Instant now) {
  dirty_ = true;
  now_ = now;
  if (state_ == SessionState::kActive) state_ = SessionState::kFinishing;
}

std::vector<PathView> Session::paths() const {
  std::vector<PathView> views;
  for (const auto& path : paths_) {
    views.push_back({path->id, path->here, path->there, path->state, path->epoch, path->rate.rate_bytes_s(now_),
                     path->rate.measured_at(), path->in_flight_bytes, path->last_cause,
                     !nics_there_.at(path->there).carrier});
  }
  return views;
}

void Session::end(SessionState state, Error error) {
  if (state_ == SessionState::kPeerDown || state_ == SessionState::kFinished) return;
  state_ = state;
  end_ = std::move(error);
  for (const auto& path : paths_) {
    if (path->link) path->link->close();
    if (path->opening) path->opening->close();
    path->link.reset();
    path->opening.reset();
    path->landing.reset();
    path->state = PathState::kClosed;
  }
  deferred_.clear();
  outbox_.fail_all(end_);
  inbox_.fail_all(end_);
  groups_.clear();
  if (state == SessionState::kPeerDown) {
    telemetry_.record({.at = now_, .kind = EventKind::kPeerDown, .peer = peer_.process});
    if (log_.enabled(LogLevel::kError)) log_.write(LogLevel::kError, end_.what);
  }
  harvest();
}

void Session::note(EventKind kind, const Path& path, std::uint64_t number, std::uint64_t bytes, std::uint64_t extra) {
  telemetry_.record({.at = now_,
                     .kind = kind,
                     .cause = path.last_cause,
                     .path = path.id,
                     .epoch = path.epoch,
                     .peer = peer_.process,
                     .number = number,
                     .bytes = bytes,
                     .extra = extra});
}

}  // namespace r2ccl
