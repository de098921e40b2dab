// Does what is due because time has passed: silence is judged, probation ends, attempts and notices are repeated,
// farewells end.

#include <fmt/format.h>

#include <algorithm>

#include "session/session.h"

namespace r2ccl {

bool Session::any_opening() const {
  return std::any_of(paths_.begin(), paths_.end(), [](const auto& path) { return path->opening != nullptr; });
}

bool Session::any_live() const {
  return std::any_of(paths_.begin(), paths_.end(), [](const auto& path) { return path->link != nullptr; });
}

bool Session::any_healthy() const {
  return std::any_of(paths_.begin(), paths_.end(),
                     [](const auto& path) { return path->link && path->state != PathState::kSuspect; });
}

void Session::run_timers() {
  if (rail_missing_) make_cross_paths();
  const bool live = any_live();
  bool trusted = std::any_of(paths_.begin(), paths_.end(), [](const auto& path) {
    return path->state == PathState::kUp || path->state == PathState::kSuspect;
  });
  for (const auto& owner : paths_) {
    Path& path = *owner;
    if (path.link) {
      if (now_ >= path.next_sample) judge_silence(path);
      if (path.state == PathState::kProbation && (now_ >= path.probation_until || !trusted)) {
        trust(path);
        trusted = true;
      }
      if (path.link) send_heartbeat(path);
      if (path.link && !wanted(path)) run_drain(path);
    }
    if (path.state == PathState::kFencing && now_ >= path.next_notice) send_fence_notices(path);
    if (path.state == PathState::kDrained && wanted(path)) path.state = PathState::kClosed;
    if (path.state == PathState::kClosed && !wanted(path)) path.state = PathState::kDrained;
    if (path.link || path.opening || peer_bye_ || !wanted(path)) continue;
    const bool due =
        live ? now_ >= path.comeback.next_attempt() : now_ - path.last_attempt >= config_.limits.no_path_retry;
    if (connector_ && (due || path.last_attempt == Instant{})) try_open(path);
    if (!connector_ && !live && control_gone_ && now_ - path.last_attempt >= config_.limits.no_path_retry)
      probe_for_death(path);
  }
  run_deferred();
  judge_peer();
  run_finish();
}

// A path whose acknowledgements advance is only slow. A silent one is given up only while another path shows that the
// peer is alive.
void Session::judge_silence(Path& path) {
  const Progress progress = path.link->progress(now_);
  if (progress.acked_bytes > path.acked_bytes)
    path.last_alive = std::max(path.last_alive, now_ - progress.last_ack_age);
  path.acked_bytes = progress.acked_bytes;
  path.min_rtt = progress.min_rtt;
  const Hearing hearing = path.silence.on_sample(now_, progress);
  const bool busy = progress.unacked_bytes + progress.queued_bytes != 0 || path.in_flight_bytes != 0;
  path.next_sample = busy ? now_ + config_.limits.sample_every : kNever;

  if (hearing == Hearing::kFine) {
    if (path.state != PathState::kSuspect) return;
    path.state = PathState::kUp;
    note(EventKind::kPathRecovered, path);
    return;
  }
  const Instant quiet_since = now_ - path.silence.silent_for(now_);
  if (path.state == PathState::kUp) {
    path.state = PathState::kSuspect;
    note(EventKind::kPathSuspect, path);
    hedge(path);
    full_state_due_ = true;  // state that the path carried may be lost, and repeating it is cheap
  }
  if (hearing != Hearing::kSilent) return;
  const bool peer_speaks = std::any_of(paths_.begin(), paths_.end(), [&](const auto& other) {
    return other.get() != &path && other->link && other->last_alive > quiet_since;
  });
  if (peer_speaks) {
    deferred_.push_back(
        {.kind = Deferred::Kind::kFence, .path = path.id, .epoch = path.epoch, .cause = Cause::kSilent, .have = {}});
  } else if (connector_ && !path.opening && now_ - quiet_since >= config_.limits.all_silent_reconnect &&
             now_ - path.last_attempt >= config_.limits.open_timeout) {
    try_open(path);  // beside the old connection, which goes on if the peer was only asleep
  }
}

void Session::send_heartbeat(Path& path) {
  const Duration every = path.state == PathState::kProbation ? config_.limits.probe : config_.limits.heartbeat;
  if (now_ - path.last_posted >= every) post(path, FrameType::kHeartbeat, {});
}

// All paths of the session send a heartbeat, because silence means something only beside a path that answers.
void Session::doubt(NicId nic, Instant now) {
  const bool used = std::ranges::any_of(paths_, [nic](const auto& path) { return path->link && path->here == nic; });
  if (!used) return;
  dirty_ = true;
  now_ = now;
  for (const auto& path : paths_)
    if (path->link && now_ - path->last_posted >= config_.limits.probe) post(*path, FrameType::kHeartbeat, {});
}

// A drained path gets no new chunks; when nothing is under way at either end it is closed without loss.
void Session::run_drain(Path& path) {
  if (path.in_flight_bytes != 0) return;
  if (!path.idle_told && post(path, FrameType::kPathIdle, encode(PathIdleBody{path.id, path.epoch}))) {
    path.idle_told = true;
    path.idle_told_at = now_;
  }
  if (path.peer_idle && nics_here_.at(path.here).drained) {
    deferred_.push_back(
        {.kind = Deferred::Kind::kFence, .path = path.id, .epoch = path.epoch, .cause = Cause::kDrained, .have = {}});
  }
}

// True: the peer's control connection has ended, its server says that nobody listens, and no rail answers.
bool Session::peer_gone() const {
  const auto refused = [this](const auto& path) { return path->refusals >= config_.limits.refusals_max; };
  const auto hopeless = [&](const auto& path) {
    return !path->is_rail() || !wanted(*path) || refused(path) || (path->unanswered && path->refusals == 0);
  };
  return control_gone_ && std::any_of(paths_.begin(), paths_.end(), refused) &&
         std::all_of(paths_.begin(), paths_.end(), hopeless);
}

void Session::judge_peer() {
  const bool speechless = !any_healthy();  // connections that died unnoticed are no sign of life
  const Duration quiet = now_ - last_heard_;
  if (peer_bye_ && (!any_live() || (speechless && quiet >= config_.limits.bye_timeout)))
    return end(SessionState::kFinished, {Fault::kPeerDown, fmt::format("rank {} has left", peer_.rank)});
  if (speechless && peer_gone()) {
    return end(SessionState::kPeerDown,
               {Fault::kPeerDown, fmt::format("rank {} ({}): its process is gone", peer_.rank, peer_.host)});
  }
  if (quiet < config_.limits.peer_timeout) return;
  std::string nics;
  for (const auto& port : peer_.ports) nics += (nics.empty() ? "" : ", ") + port.name;
  end(SessionState::kPeerDown,
      {Fault::kPeerDown, fmt::format("rank {} ({}): no sign of life for {:.1f} s on any NIC ({})", peer_.rank,
                                     peer_.host, to_seconds(quiet), nics)});
}

void Session::run_finish() {
  if (state_ != SessionState::kFinishing) return;
  // Chunks of groups that have ended matter to nobody.
  if (!bye_sent_ && (outbox_.idle() || groups_.empty())) {
    bye_sent_ = true;
    bye_deadline_ = now_ + config_.limits.bye_timeout;
    for (const auto& path : paths_)
      if (path->link) post(*path, FrameType::kBye, {});
  }
  // Without a path the goodbye waits for one, unless there never was any.
  const bool strangers =
      std::all_of(paths_.begin(), paths_.end(), [](const auto& path) { return path->epoch == Epoch{}; });
  if (bye_sent_ && (bye_acked_ || now_ >= bye_deadline_ || strangers))
    end(SessionState::kFinished, {Fault::kGroupEnded, fmt::format("the session with rank {} is finished", peer_.rank)});
}

Instant Session::next_deadline() const {
  const bool live = any_live();
  // Without a path a receipt has nowhere to go.
  Instant next = live ? std::min(state_due_, bye_deadline_) : bye_deadline_;
  for (const auto& owner : paths_) {
    const Path& path = *owner;
    if (path.link) {
      next = std::min(
          {next, path.next_sample,
           path.last_posted + (path.state == PathState::kProbation ? config_.limits.probe : config_.limits.heartbeat)});
      if (path.state == PathState::kProbation) next = std::min(next, path.probation_until);
    }
    if (path.state == PathState::kFencing) next = std::min(next, path.next_notice);
    if (path.opening) {
      next = std::min(next, path.last_attempt + config_.limits.open_timeout + 1ms);
    } else if (!path.link && wanted(path) && !peer_bye_) {
      if (connector_)
        next = std::min(next, live ? path.comeback.next_attempt() : path.last_attempt + config_.limits.no_path_retry);
      if (!connector_ && !live && control_gone_)
        next = std::min(next, path.last_attempt + config_.limits.no_path_retry);
    }
  }
  if (nic_news_waits()) next = std::min(next, std::max(next_nic_notice_, now_));
  return std::min(next, last_heard_ + config_.limits.peer_timeout);
}

}  // namespace r2ccl
