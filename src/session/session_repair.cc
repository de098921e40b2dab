// Paths open, die, are fenced by both ends, and come back with a new epoch. See docs/protocol.md, "Repairing".

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "session/session.h"

namespace r2ccl {

// ---- which paths there are -----------------------------------------------------------------------------------

void Session::make_rail_paths() {
  for (const auto& here : self_.ports) {
    for (const auto& there : peer_.ports)
      if (here.nic == there.nic) add_path(connector_ ? PathId{here.nic, there.nic} : PathId{there.nic, here.nic});
  }
  if (paths_.empty() && config_.fabric == Fabric::kRouted) make_cross_paths();
}

// On a routed fabric NICs that lost their rail partner can still reach each other.
void Session::make_cross_paths() {
  if (config_.fabric != Fabric::kRouted || std::exchange(cross_paths_made_, true)) return;
  for (const auto& here : self_.ports) {
    for (const auto& there : peer_.ports)
      add_path(connector_ ? PathId{here.nic, there.nic} : PathId{there.nic, here.nic});
  }
}

Path* Session::find_path(PathId id) {
  const auto at =
      std::lower_bound(paths_.begin(), paths_.end(), id, [](const auto& path, PathId key) { return path->id < key; });
  return at != paths_.end() && (*at)->id == id ? at->get() : nullptr;
}

// Null: one of the NICs does not exist, or there are too many paths.
Path* Session::add_path(PathId id) {
  if (Path* path = find_path(id)) return path;
  const NicId here = connector_ ? id.low : id.high;
  const NicId there = connector_ ? id.high : id.low;
  const auto has = [](const std::vector<ProcessInfo::Port>& ports, NicId nic) {
    return std::find_if(ports.begin(), ports.end(), [&](const auto& port) { return port.nic == nic; });
  };
  const auto local = has(self_.ports, here);
  const auto remote = has(peer_.ports, there);
  if (local == self_.ports.end() || remote == peer_.ports.end() || paths_.size() >= config_.limits.paths_max)
    return nullptr;
  auto path =
      std::make_unique<Path>(id, here, there, remote->listen, config_.limits, config_.silence, config_.comeback);
  for (const Nic& nic : provider_.nics())
    if (nic.id == here) path->distance_weight = 1.0 + 0.05 * static_cast<double>(nic.distance);
  const auto at =
      std::lower_bound(paths_.begin(), paths_.end(), id, [](const auto& p, PathId key) { return p->id < key; });
  return paths_.insert(at, std::move(path))->get();
}

bool Session::wanted(const Path& path) const {
  return drained_ == 0 || (!nics_here_.at(path.here).drained && !nics_there_.at(path.there).drained);
}

// ---- fence, agree, replay ------------------------------------------------------------------------------------

void Session::run_deferred() {
  // Draining a link during a fence may bring more inputs; they are taken in the same turn.
  while (!deferred_.empty()) {
    std::vector<Deferred> batch = std::exchange(deferred_, {});
    for (Deferred& input : batch) run_one(input);
  }
}

void Session::run_one(Deferred& input) {
  constexpr std::uint32_t kEpochStepMax = 1 << 20;  // no honest peer is this far ahead
  Path* path = add_path(input.path);
  if (path == nullptr || input.epoch.value > path->seen.value + kEpochStepMax) {
    ++telemetry_.counters.refused_frames;
    return;
  }
  switch (input.kind) {
    case Deferred::Kind::kFence:
      if (path->link && path->epoch == input.epoch) fence(*path, input.cause);
      return;
    case Deferred::Kind::kOpen:
      return on_open(*path, input);
    case Deferred::Kind::kPathDown: {
      path->seen = std::max(path->seen, input.epoch);
      const bool stale = input.epoch < path->epoch;
      if (path->link && (!stale || !config_.rules.check_epoch)) fence(*path, Cause::kTold, input.cause);
      if (path->opening && connector_ && path->open_sent && path->proposed <= input.epoch) drop_opening(*path);
      if (input.cause != Cause::kDrained) path->comeback.on_hint(now_);
      return answer_fenced(*path, input.epoch);
    }
    case Deferred::Kind::kFenced:
      path->seen = std::max(path->seen, input.epoch);
      // The other end reads no more from the path, even if its PATH_DOWN was lost.
      if (path->link && path->epoch <= input.epoch) fence(*path, Cause::kTold);
      if (!config_.rules.check_epoch) input.epoch = path->epoch;
      return apply_fenced(*path, input.epoch, input.have);
  }
}

// This end's half of a fence: stop using the path, take what has already arrived, close, and say what is here.
void Session::fence(Path& path, Cause cause, Cause peer_cause) {
  R2CCL_ASSERT(path.link != nullptr, "only an open path is fenced");
  // A path that is being drained is closed by the other end once this end has said that nothing is under way. That is
  // planned, not a failure, even if we have heard in the meantime that the path is wanted again.
  const bool ended = cause == Cause::kReset || cause == Cause::kClosed;
  const bool drained = (path.idle_told && !wanted(path)) ||
                       (path.idle_told_at != kNever && now_ - path.idle_told_at < config_.limits.undrain_overtakes);
  if (ended && drained) cause = Cause::kDrained;
  path.last_cause = cause;
  path.down_since = now_;
  ++telemetry_.counters.paths_down;
  note(EventKind::kPathDown, path, 0, path.in_flight_bytes);
  if (log_.enabled(LogLevel::kInfo)) {
    log_.write(LogLevel::kInfo, fmt::format("path {} to rank {}: down ({})", to_text(path.id), peer_.rank,
                                            cause == Cause::kTold ? to_text(peer_cause) : to_text(cause)));
  }
  reading_ = &path;
  reading_opening_ = false;
  path.link->drain_and_close(now_, *this);
  reading_ = nullptr;
  path.link.reset();
  path.landing.reset();
  path.in_flight_bytes = 0;
  path.rate.on_cut(now_);
  path.peer_idle = path.idle_told = false;
  path.idle_told_at = path.next_sample = kNever;
  path.state = PathState::kFencing;
  note(EventKind::kFenceSent, path, inbox_.have().cumulative());

  const bool planned =
      cause == Cause::kDrained || cause == Cause::kReplaced || peer_cause == Cause::kDrained || peer_bye_;
  if (!planned) {
    path.comeback.on_down(now_);
    observe(path, cause, false);
    if (peer_cause != Cause::kNone) observe(path, peer_cause, true);
    make_cross_paths();
  }
  full_state_due_ = true;
  if (!config_.rules.fence_before_replay) outbox_.on_path_fenced(path.id, path.epoch);
  if (path.peer_fenced >= path.epoch) {
    path.state = wanted(path) ? PathState::kClosed : PathState::kDrained;
    return;
  }
  path.notice_wait = config_.limits.notice_repeat;
  send_fence_notices(path);
}

// Says that the path is down and what has arrived here, on every other path and the control network. Repeated until
// the other end answers.
void Session::send_fence_notices(Path& path) {
  const bool told = path.last_cause == Cause::kTold;
  const Bytes down = encode(PathDownBody{path.id, path.epoch, path.last_cause});
  const Bytes fenced = encode(FencedBody{path.id, path.epoch, inbox_.have()});
  for (const auto& other : paths_) {
    if (!other->link) continue;
    post(*other, FrameType::kPathDown, down);
    if (config_.rules.fence_both_ends || !told) post(*other, FrameType::kFenced, fenced);
  }
  const auto notify = [this](FrameType type, const Bytes& body) {
    Bytes notice{static_cast<std::byte>(type)};
    notice.insert(notice.end(), body.begin(), body.end());
    notices_.send_notice(peer_.process, NoticeKind::kSession, notice);
    ++telemetry_.counters.notices_sent;
  };
  notify(FrameType::kPathDown, down);
  if (config_.rules.fence_both_ends || !told) notify(FrameType::kFenced, fenced);
  path.next_notice = config_.rules.repeat_notice ? now_ + path.notice_wait : kNever;
  path.notice_wait = std::min<Duration>(2 * path.notice_wait, 10 * config_.limits.notice_repeat);
}

// Answers a PATH_DOWN for an epoch that is already over here, however late it comes, with what is here now.
void Session::answer_fenced(Path& path, Epoch epoch) {
  if (!config_.rules.fence_both_ends) return;
  const Bytes fenced = encode(FencedBody{path.id, epoch, inbox_.have()});
  if (Path* control = control_path()) post(*control, FrameType::kFenced, fenced);
  Bytes notice{static_cast<std::byte>(FrameType::kFenced)};
  notice.insert(notice.end(), fenced.begin(), fenced.end());
  notices_.send_notice(peer_.process, NoticeKind::kSession, notice);
  ++telemetry_.counters.notices_sent;
}

// The other end's half of a fence: what it lacks and no other path carries is sent again.
void Session::apply_fenced(Path& path, Epoch epoch, const IntervalSet& have) {
  if (!apply_receipt(have)) {
    ++telemetry_.counters.refused_frames;
    return;
  }
  if (epoch <= path.peer_fenced && config_.rules.check_epoch) return;
  path.peer_fenced = std::max(epoch, path.peer_fenced);
  note(EventKind::kFenceReceived, path, have.cumulative(), 0, epoch.value);
  outbox_.on_path_fenced(path.id, epoch);
  path.next_notice = kNever;
  if (path.state != PathState::kFencing) return;
  path.state = wanted(path) ? PathState::kClosed : PathState::kDrained;
  if (log_.enabled(LogLevel::kInfo)) {
    log_.write(LogLevel::kInfo, fmt::format("path {} to rank {}: both ends agree {:.1f} ms after it went down",
                                            to_text(path.id), peer_.rank, to_ms(now_ - path.down_since)));
  }
}

void Session::observe(const Path& path, Cause cause, bool at_peer) {
  const NicName here{self_.server, path.here}, there{peer_.server, path.there};
  if (observations_.size() < 1024)
    observations_.push_back({at_peer ? there : here, at_peer ? here : there, cause, now_});
}

// ---- opening -------------------------------------------------------------------------------------------------

void Session::try_open(Path& path) {
  path.last_attempt = now_;
  path.open_sent = false;
  const Hello hello{
      .purpose = Purpose::kData, .key = key_, .from = self_.process, .to = peer_.process, .path = path.id};
  auto link = provider_.connect(path.here, path.remote, hello, now_);
  path.unanswered |= !link;
  if (!link) return path.comeback.on_attempt_failed(now_);  // no descriptor, no port: nobody's fault
  path.opening = std::move(*link);
  if (path.state == PathState::kClosed) path.state = PathState::kOpening;
}

void Session::drop_opening(Path& path) {
  if (!path.opening) return;
  const Cause cause = path.opening->state() == LinkState::kDown ? path.opening->cause() : Cause::kTimeout;
  path.opening->close();
  path.opening.reset();
  path.open_sent = false;
  path.comeback.on_attempt_failed(now_);
  if (path.state == PathState::kOpening) path.state = PathState::kClosed;
  // A rail that never comes up while another is up has a culprit too. One failure alone may be chance, so the second
  // attempt counts.
  const bool missing = connector_ && path.is_rail() && path.epoch == Epoch{} && any_live();
  rail_missing_ |= missing;
  if (missing && ++path.attempts_missed == 2) observe(path, cause, false);
}

// Moves an attempt on: the connector proposes an epoch once the link stands. An attempt that takes too long is dropped.
void Session::step_opening(Path& path) {
  if (!path.opening) return;
  const LinkState state = path.opening->state();
  if (state == LinkState::kDown || now_ - path.last_attempt > config_.limits.open_timeout) {
    path.refusals = path.opening->cause() == Cause::kRefused ? path.refusals + 1 : 0;
    path.unanswered = true;
    return drop_opening(path);
  }
  if (state != LinkState::kUp) return;
  path.refusals = 0;
  path.unanswered = false;
  if (path.opening->hello().purpose == Purpose::kProbe) return drop_opening(path);
  if (!connector_ || path.open_sent) return;
  if (path.link) fence(path, Cause::kReplaced);
  path.proposed = {std::max(path.seen, path.epoch).value + 1};
  path.seen = path.proposed;
  const Bytes body = encode(OpenBody{path.proposed, config_.limits.eager_bytes, inbox_.have()});
  const FrameHeader header{
      .type = static_cast<std::uint8_t>(FrameType::kOpen), .path = path.id, .epoch = path.proposed};
  if (!path.opening->post({header, body, {}})) return drop_opening(path);
  path.open_sent = true;
  reading_ = &path;
  reading_opening_ = true;
  path.opening->step(now_, *this);
  reading_ = nullptr;
}

// The acceptor's side of a new epoch. Whatever is left of the old one ends now, at both ends.
void Session::on_open(Path& path, const Deferred& input) {
  if (!path.opening || connector_ || path.opening->state() != LinkState::kUp) return;
  if (path.link) fence(path, Cause::kReplaced);
  const Epoch agreed{std::max(input.epoch.value, path.seen.value + 1)};
  path.seen = agreed;
  outbox_.on_eager_grant(input.eager_bytes);
  if (config_.rules.fence_both_ends) apply_fenced(path, {agreed.value - 1}, input.have);
  const Bytes body = encode(OpenBody{agreed, config_.limits.eager_bytes, inbox_.have()});
  const FrameHeader header{.type = static_cast<std::uint8_t>(FrameType::kOpenAck), .path = path.id, .epoch = agreed};
  if (!path.opening->post({header, body, {}})) return drop_opening(path);
  path.epoch = agreed;
  path_opened(path);
}

void Session::on_open_ack(Path& path, const OpenBody& body) {
  path.seen = std::max(path.seen, body.epoch);
  outbox_.on_eager_grant(body.eager_bytes);
  if (config_.rules.fence_both_ends) apply_fenced(path, {body.epoch.value - 1}, body.have);
  path.epoch = body.epoch;
  path_opened(path);
  reading_opening_ = false;
}

void Session::path_opened(Path& path) {
  const bool others = std::any_of(paths_.begin(), paths_.end(), [&](const auto& other) {
    return other->link && (other->state == PathState::kUp || other->state == PathState::kSuspect);
  });
  path.link = std::move(path.opening);
  path.open_sent = false;
  path.silence = Silence(config_.silence);
  path.acked_bytes = 0;
  path.last_posted = path.last_heard = path.last_alive = now_;
  path.next_sample = now_ + config_.limits.sample_every;
  path.corrupt.clear();
  path.posted = true;
  path.next_notice = kNever;
  path.probation_until = path.comeback.on_open(now_);
  path.state = PathState::kProbation;
  ++telemetry_.counters.paths_up;
  note(EventKind::kPathUp, path, 0, 0, path.probation_until > now_ && others ? 1 : 0);
  if (!others || path.probation_until <= now_) trust(path);
  full_state_due_ = true;
}

void Session::trust(Path& path) {
  path.state = PathState::kUp;
  path.comeback.on_trusted(now_);
  ++telemetry_.counters.paths_trusted;
  note(EventKind::kPathTrusted, path);
}

// The accepting end does not reconnect. When every path is gone, it tries a connection only to learn whether anybody
// still listens there.
void Session::probe_for_death(Path& path) {
  path.last_attempt = now_;
  const Hello hello{
      .purpose = Purpose::kProbe, .key = key_, .from = self_.process, .to = peer_.process, .path = path.id};
  auto link = provider_.connect(path.here, path.remote, hello, now_);
  path.unanswered |= !link;
  if (link) path.opening = std::move(*link);
}

}  // namespace r2ccl
