// Sends: chunks over the path that finishes them first, and state over a path that is alive.

#include <algorithm>
#include <tuple>

#include "session/session.h"
#include "session/streams/stripe.h"

namespace r2ccl {

bool Session::post(Path& path, FrameType type, ByteView body) {
  if (!path.link) return false;
  const FrameHeader header{.type = static_cast<std::uint8_t>(type), .path = path.id, .epoch = path.epoch};
  if (!path.link->post({header, body, {}})) return false;
  path.last_posted = now_;
  path.posted = true;
  if (path.next_sample == kNever) path.next_sample = now_ + config_.limits.sample_every;
  return true;
}

// The path for state: an open one, healthy before suspect, then one on which something leaves this turn anyway, then
// the one that was heard from last. Null: none is open.
Path* Session::control_path() {
  Path* best = nullptr;
  const auto rank = [](const Path& path) {
    return path.state == PathState::kUp ? 2 : path.state == PathState::kProbation ? 1 : 0;
  };
  for (const auto& path : paths_) {
    if (!path->link) continue;
    const auto order = [&](const Path& one) { return std::tuple(rank(one), one.posted, one.last_heard); };
    if (best == nullptr || order(*path) > order(*best)) best = path.get();
  }
  return best;
}

bool Session::tell(std::uint8_t kind, ByteView bytes) {
  Path* path = control_path();
  if (path == nullptr || bytes.size() >= kBodyBytesMax) return false;
  Bytes body{static_cast<std::byte>(kind)};
  body.insert(body.end(), bytes.begin(), bytes.end());
  dirty_ = true;
  return post(*path, FrameType::kNotice, body);
}

// ---- chunks --------------------------------------------------------------------------------------------------

// Paths that may carry new chunks. A cross path only helps when both its NICs have lost their rail partner.
const std::vector<Path*>& Session::usable_paths() {
  const auto rail_up = [this](NicId nic) {
    const Path* path = find_path({nic, nic});
    return path != nullptr && path->link && path->state == PathState::kUp && wanted(*path);
  };
  usable_.clear();
  for (const PathState state : {PathState::kUp, PathState::kSuspect}) {
    for (const auto& path : paths_) {
      if (!path->link || path->blocked || path->state != state || !wanted(*path)) continue;
      if (!path->is_rail() && (rail_up(path->here) || rail_up(path->there))) continue;
      usable_.push_back(path.get());
    }
    if (!usable_.empty()) break;  // suspects only when nothing else is left
  }
  return usable_;
}

std::optional<std::size_t> Session::next_path(std::uint32_t bytes) {
  const auto candidate = [this](const Path& path) {
    return StripeCandidate{path.rate.rate_bytes_s(now_), path.distance_weight, path.in_flight_bytes, path.min_rtt,
                           path.rate.try_at()};
  };
  if (const auto nic = outbox_.next_nic()) {
    // Numbers wrap: after the last NIC comes the first.
    const auto distance = [&](const Path* path) { return static_cast<std::uint8_t>(path->here.value - nic->value); };
    const auto nearest = std::ranges::min_element(usable_, {}, distance);
    if (is_full(candidate(**nearest), bytes, config_.limits)) return std::nullopt;
    return nearest - usable_.begin();
  }
  candidates_.clear();
  for (const Path* path : usable_) candidates_.push_back(candidate(*path));
  return choose_path(candidates_, bytes, config_.limits, now_, home_);
}

void Session::pump() {
  if (!outbox_.has_next()) return;
  usable_paths();
  double rate = 0;
  for (const Path* path : usable_) rate = std::max(rate, path->rate.rate_bytes_s(now_));
  const auto chunk_max = static_cast<std::uint64_t>(rate * to_seconds(config_.limits.chunk_time));
  std::size_t skipped = 0;  // streams in a row whose next chunk can not leave
  while (!usable_.empty()) {
    const auto length = outbox_.next_length(usable_.size(), chunk_max);
    if (!length) return;
    const auto chosen = next_path(*length);
    if (!chosen) {
      if (!outbox_.next_nic() || ++skipped >= outbox_.ready()) return;
      outbox_.skip_next();
      continue;
    }
    skipped = 0;
    SendReason reason{};
    OutChunk& chunk = outbox_.take_next(reason);
    if (transmit(*usable_[*chosen], chunk, reason)) continue;
    outbox_.put_back(chunk, reason);
    usable_[*chosen]->blocked = true;
    usable_.erase(usable_.begin() + static_cast<std::ptrdiff_t>(*chosen));
  }
}

bool Session::transmit(Path& path, OutChunk& chunk, SendReason reason) {
  encode(outbox_.describe(chunk), body_);
  const MemoryRef payload = outbox_.payload(chunk);
  const auto bytes = static_cast<std::uint32_t>(payload.length);
  const FrameHeader header{.type = static_cast<std::uint8_t>(FrameType::kData),
                           .path = path.id,
                           .epoch = path.epoch,
                           .payload_bytes = bytes};
  const auto ticket = path.link->post({header, body_, payload});
  if (!ticket) return false;
  path.chunk_out(now_, bytes);
  path.last_posted = now_;
  path.posted = true;
  if (path.next_sample == kNever) path.next_sample = now_ + config_.limits.sample_every;
  outbox_.sent(chunk, {path.id, path.epoch, chunk.copies_made, bytes, *ticket});

  Counters& count = telemetry_.counters;
  ++count.chunks_sent;
  switch (reason) {
    case SendReason::kFirst:
      count.bytes_sent += bytes;
      note(EventKind::kChunkSent, path, chunk.id.value, bytes);
      return true;
    case SendReason::kReplay:
      ++count.replayed_chunks;
      count.replayed_bytes += bytes;
      note(EventKind::kChunkReplayed, path, chunk.id.value, bytes, chunk.copies_made - 1u);
      return true;
    case SendReason::kResend:
      ++count.resent_chunks;
      count.resent_bytes += bytes;
      note(EventKind::kChunkResent, path, chunk.id.value, bytes, chunk.copies_made - 1u);
      return true;
    case SendReason::kHedge:
      ++count.hedged_chunks;
      count.hedged_bytes += bytes;
      note(EventKind::kChunkHedged, path, chunk.id.value, bytes, chunk.copies_made - 1u);
      return true;
  }
  return true;
}

// The oldest chunk on a path that has gone quiet is sent once more elsewhere.
void Session::hedge(Path& path) {
  const auto oldest = outbox_.oldest_on(path.id, path.epoch);
  if (!oldest) return;
  OutChunk& chunk = *outbox_.find(*oldest);
  const auto carries = [&](const Path* other) {
    return other != &path && std::ranges::any_of(chunk.copies, [&](const Copy& copy) {
             return copy.path == other->id && copy.epoch == other->epoch;
           });
  };
  usable_paths();
  if (std::ranges::any_of(usable_, carries)) return;  // a usable path already carries a copy
  for (Path* other : usable_)
    if (other != &path && transmit(*other, chunk, SendReason::kHedge)) return;
}

// ---- state ---------------------------------------------------------------------------------------------------

void Session::flush_state() {
  const bool something = inbox_.unreceipted() != 0 || inbox_.has_new_credits();
  if (something && state_due_ == kNever) state_due_ = now_ + config_.limits.state_delay;
  // Usually there is something to say, but it may wait. What is due soon rides on data that leave anyway.
  const bool soon = now_ + config_.limits.state_delay / 2 >= state_due_;
  if (!soon && !full_state_due_ && !nic_news_waits() && !inbox_.urgent() &&
      inbox_.unreceipted() < config_.limits.receipt_chunks)
    return;
  Path* path = control_path();
  // Completing a message makes its owner post more sends and receives. We wait one step before sending receipts and
  // credits, so that they leave with those instead of costing a packet of their own.
  state_waits_ = !state_waits_ && !inbox_.completions().empty() && path != nullptr && !path->posted;
  if (state_waits_) {
    dirty_ = true;
    return;
  }
  const bool due = now_ >= state_due_ || (soon && path != nullptr && path->posted);
  send_nic_notice();
  if (path == nullptr) return;
  if (full_state_due_) return send_full_state(*path);
  std::vector<CreditEntry> credits;
  if (due || inbox_.credit_urgent()) credits = inbox_.take_new_credits();
  std::erase_if(credits, [this](const CreditEntry& credit) { return !groups_.at(credit.group).joined; });
  send_list_state(*path, std::move(credits), inbox_.take_new_failures());
  if (due || inbox_.receipt_urgent() || inbox_.unreceipted() >= config_.limits.receipt_chunks) send_receipt(*path);
  if (inbox_.unreceipted() == 0 && !inbox_.has_new_credits()) state_due_ = kNever;
}

void Session::send_receipt(Path& path) {
  if (inbox_.unreceipted() == 0) return;
  if (!post(path, FrameType::kReceipt, encode(ReceiptBody{inbox_.eager_released(), inbox_.have()})))
    full_state_due_ = true;
  inbox_.on_receipt_sent();
}

// True: nobody knows whether a path can carry the news of our NICs, because none is healthy or none was heard from
// since. (A path looks healthy, too, when the peer does not read and our frames wait behind others.)
bool Session::nic_news_waits() const {
  return nic_news_at_ != kNever && (last_heard_ <= nic_news_at_ || !any_healthy());
}

// Sends that news over the control network: a NIC that is undrained while no path lives would never be tried again
// otherwise.
void Session::send_nic_notice() {
  if (!nic_news_waits() || now_ < next_nic_notice_) return;
  next_nic_notice_ = now_ + config_.limits.no_path_retry;
  Bytes notice{static_cast<std::byte>(FrameType::kNicState)};
  const Bytes body = encode(nic_state());
  notice.insert(notice.end(), body.begin(), body.end());
  notices_.send_notice(peer_.process, NoticeKind::kSession, notice);
  ++telemetry_.counters.notices_sent;
}

std::vector<NicStateEntry> Session::nic_state() const {
  std::vector<NicStateEntry> nics;
  for (const auto& [nic, view] : nics_here_) nics.push_back({nic, view.version, view.carrier, view.drained});
  return nics;
}

// Everything the other end must know, whatever it may have missed.
void Session::send_full_state(Path& path) {
  full_state_due_ = false;
  for (const auto& [group, state] : groups_) send_join(path, group, state);
  for (const GroupId group : ended_groups_)
    if (!post(path, FrameType::kGroupEnd, encode(group))) full_state_due_ = true;
  if (!post(path, FrameType::kNicState, encode(nic_state()))) full_state_due_ = true;
  for (const auto& other : paths_) {
    if (other->idle_told && other->link)
      post(path, FrameType::kPathIdle, encode(PathIdleBody{other->id, other->epoch}));
  }

  const bool all = config_.rules.resend_credit_after_fence || std::exchange(group_joined_, false);
  std::vector<CreditEntry> credits = inbox_.take_new_credits();
  if (all) credits = inbox_.all_credits();
  inbox_.take_new_failures();
  std::erase_if(credits, [this](const CreditEntry& credit) { return !groups_.at(credit.group).joined; });
  send_list_state(path, std::move(credits), inbox_.failed_copies());
  if (!post(path, FrameType::kReceipt, encode(ReceiptBody{inbox_.eager_released(), inbox_.have()})))
    full_state_due_ = true;
  inbox_.on_receipt_sent();
  state_due_ = kNever;
  if (bye_sent_) post(path, FrameType::kBye, {});
}

void Session::send_list_state(Path& path, std::vector<CreditEntry> credits, std::vector<CopyName> failures) {
  for (std::span<const CreditEntry> rest = credits; !rest.empty();) {
    const std::size_t count = std::min(rest.size(), kListMax);
    if (!post(path, FrameType::kCredit, encode(rest.first(count)))) full_state_due_ = true;
    rest = rest.subspan(count);
  }
  for (std::span<const CopyName> rest = failures; !rest.empty();) {
    const std::size_t count = std::min(rest.size(), kListMax);
    if (!post(path, FrameType::kResend, encode(rest.first(count)))) full_state_due_ = true;
    rest = rest.subspan(count);
  }
}

void Session::send_join(Path& path, GroupId group, const Group& state) {
  const JoinBody body{group, join_proof(state.secret, group, self_.process, peer_.process)};
  if (!post(path, FrameType::kJoin, encode(body))) full_state_due_ = true;
}

}  // namespace r2ccl
