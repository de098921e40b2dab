// Takes what arrives: data lands, state is merged, and inputs that fence paths are put off until no link is being read.

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "session/session.h"

namespace r2ccl {

Landing Session::on_header(Link&, const FrameHeader& header, ByteView bytes) {
  Path& path = *reading_;
  if (reading_opening_ || header.type != static_cast<std::uint8_t>(FrameType::kData)) return {};
  if (config_.rules.check_epoch && (header.epoch != path.epoch || header.path != path.id)) return {};
  const auto body = decode<DataBody>(bytes);
  if (!body) return {};
  const Inbox::Place place = inbox_.place(*body, header.payload_bytes);
  if (place.ask == Inbox::Ask::kRefuse) refuse(path);
  if (place.ask != Inbox::Ask::kLand) return {};
  // Two copies of a chunk must not write the same memory at once. The copy that was sent last wins, because the paths
  // of older ones were already in doubt when it was sent: an older copy stops writing, or does not start.
  if (config_.rules.redirect_landing) {
    for (const auto& other : paths_) {
      if (other.get() == &path || other->landing != body->chunk || !other->link) continue;
      if (other->landing_copy > body->copy) return {};
      other->link->discard_rest();
    }
  }
  path.landing = body->chunk;
  path.landing_copy = body->copy;
  path.landing_group = body->group;
  return {place.memory};
}

void Session::on_frame(Link&, const FrameHeader& header, ByteView bytes, Payload payload) {
  Path& path = *reading_;
  path.last_heard = path.last_alive = last_heard_ = now_;
  path.landing.reset();
  const auto type = static_cast<FrameType>(header.type);
  if (reading_opening_) {
    const auto body = decode<OpenBody>(bytes);
    if (body && type == FrameType::kOpen && !connector_) {
      deferred_.push_back({.kind = Deferred::Kind::kOpen,
                           .path = path.id,
                           .epoch = body->epoch,
                           .have = body->have,
                           .eager_bytes = body->eager_bytes});
    } else if (body && type == FrameType::kOpenAck && connector_ && path.open_sent && body->epoch >= path.proposed) {
      on_open_ack(path, *body);
    } else {
      ++telemetry_.counters.refused_frames;
    }
    return;
  }
  if (header.epoch != path.epoch || header.path != path.id) {
    ++telemetry_.counters.stale_frames;
    if (config_.rules.check_epoch) return;
  }
  if (type == FrameType::kData) {
    const auto body = decode<DataBody>(bytes);
    if (!body) return refuse(path);
    return on_data(path, header, *body, payload);
  }
  if (type == FrameType::kByeAck) bye_acked_ = true;
  if (type == FrameType::kBye) {
    peer_bye_ = true;
    post(path, FrameType::kByeAck, {});
  }
  if (!on_control(type, bytes)) refuse(path);
}

void Session::on_data(Path& path, const FrameHeader& header, const DataBody& body, Payload payload) {
  if (payload == Payload::kCorrupt) {
    ++telemetry_.counters.corrupt_payloads;
    copy_failed(EventKind::kCopyCorrupt, path, body);
    path.corrupt.push_back(now_);
    while (now_ - path.corrupt.front() > config_.limits.corrupt_window) path.corrupt.pop_front();
    if (path.corrupt.size() >= static_cast<std::size_t>(config_.limits.corrupt_payloads_max)) refuse(path);
    return;
  }
  if (payload == Payload::kDiscarded || payload == Payload::kNone) {
    const Inbox::Place place = inbox_.place(body, header.payload_bytes);
    if (place.ask == Inbox::Ask::kRefuse) return refuse(path);
    if (place.ask == Inbox::Ask::kDrop) ++telemetry_.counters.stale_frames;
    // A later copy of the same chunk took over its memory. Unless that one is in, this copy counts as lost.
    if (place.ask == Inbox::Ask::kLand && payload == Payload::kDiscarded)
      return copy_failed(EventKind::kCopyOvertaken, path, body);
  }
  if (!inbox_.on_chunk(body, header.payload_bytes)) {
    ++telemetry_.counters.duplicate_chunks;
    note(EventKind::kChunkDuplicate, path, body.chunk.value, header.payload_bytes);
    return;
  }
  ++telemetry_.counters.chunks_placed;
  telemetry_.counters.bytes_received += header.payload_bytes;
  note(EventKind::kChunkPlaced, path, body.chunk.value, header.payload_bytes, body.copy);
}

void Session::copy_failed(EventKind why, const Path& path, const DataBody& body) {
  inbox_.on_copy_failed(body);
  note(why, path, body.chunk.value, 0, body.copy);
}

// Handles what means the same on any path and on the control network. False: no correct peer sends this.
bool Session::on_control(FrameType type, ByteView bytes) {
  switch (type) {
    case FrameType::kHeartbeat:
    case FrameType::kBye:
    case FrameType::kByeAck:
      return bytes.empty();
    case FrameType::kPathDown: {
      const auto body = decode<PathDownBody>(bytes);
      if (body) {
        deferred_.push_back({.kind = Deferred::Kind::kPathDown,
                             .path = body->path,
                             .epoch = body->epoch,
                             .cause = body->cause,
                             .have = {}});
      }
      return body.has_value();
    }
    case FrameType::kFenced: {
      const auto body = decode<FencedBody>(bytes);
      if (body) {
        deferred_.push_back(
            {.kind = Deferred::Kind::kFenced, .path = body->path, .epoch = body->epoch, .have = body->have});
      }
      return body.has_value();
    }
    case FrameType::kPathIdle: {
      const auto body = decode<PathIdleBody>(bytes);
      if (!body) return false;
      if (Path* path = find_path(body->path); path != nullptr && path->epoch == body->epoch) path->peer_idle = true;
      return true;
    }
    case FrameType::kNotice: {
      if (bytes.empty()) return false;
      if (heard_.size() < config_.limits.notices_max)
        heard_.push_back({static_cast<std::uint8_t>(bytes[0]), {bytes.begin() + 1, bytes.end()}});
      return true;
    }
    default:
      return on_state(type, bytes);
  }
}

// Handles state, which is cumulative: it does no harm however often and whichever way it comes.
bool Session::on_state(FrameType type, ByteView bytes) {
  switch (type) {
    case FrameType::kCredit: {
      const auto credits = decode<std::vector<CreditEntry>>(bytes);
      return credits && std::all_of(credits->begin(), credits->end(),
                                    [this](const CreditEntry& c) { return outbox_.on_credit(c); });
    }
    case FrameType::kReceipt: {
      const auto receipt = decode<ReceiptBody>(bytes);
      if (!receipt || !apply_receipt(receipt->have)) return false;
      outbox_.on_eager_released(receipt->eager_released);
      return true;
    }
    case FrameType::kResend: {
      const auto copies = decode<std::vector<CopyName>>(bytes);
      if (!copies) return false;
      for (const CopyName& name : *copies) {
        const auto lost = outbox_.on_copy_lost(name);
        Path* path = lost ? find_path(lost->path) : nullptr;
        if (path == nullptr || !path->link || path->epoch != lost->epoch) continue;
        path->chunk_in(now_, lost->bytes, false);
      }
      return true;
    }
    case FrameType::kJoin: {
      const auto body = decode<JoinBody>(bytes);
      if (body) on_join(*body);
      return body.has_value();
    }
    case FrameType::kGroupEnd: {
      const auto group = decode<GroupId>(bytes);
      if (group) abort(*group);
      return group.has_value();
    }
    case FrameType::kNicState: {
      const auto nics = decode<std::vector<NicStateEntry>>(bytes);
      if (nics) on_nic_state(*nics);
      return nics.has_value();
    }
    default:
      return false;
  }
}

void Session::on_join(const JoinBody& body) {
  const auto found = groups_.find(body.group);
  if (found == groups_.end()) {
    if (early_joins_.size() < config_.limits.early_joins_max) early_joins_[body.group] = body.proof;
    return;
  }
  if (found->second.joined) return;
  if (!same_proof(join_proof(found->second.secret, body.group, peer_.process, self_.process), body.proof)) {
    ++telemetry_.counters.refused_frames;
    return;
  }
  found->second.joined = true;
  outbox_.on_group_joined(body.group);
  full_state_due_ = group_joined_ = true;  // credits that waited for the proof
}

void Session::on_nic_state(const std::vector<NicStateEntry>& nics) {
  for (const NicStateEntry& entry : nics) {
    const auto found = nics_there_.find(entry.nic);
    if (found == nics_there_.end() || entry.version < found->second.version) continue;
    const bool returned = (entry.carrier && !found->second.carrier) || (!entry.drained && found->second.drained);
    carrier_news_ |= entry.carrier != found->second.carrier;
    drained_ += entry.drained ? 1 : 0;
    drained_ -= found->second.drained ? 1 : 0;
    found->second = {entry.carrier, entry.drained, entry.version};
    if (!returned) continue;
    for (const auto& path : paths_) {
      if (path->there == entry.nic) {
        path->peer_idle = path->idle_told = false;
        path->comeback.on_hint(now_);
      }
    }
  }
}

// A peer that breaks the protocol on a path loses the path, not the session.
void Session::refuse(Path& path) {
  ++telemetry_.counters.refused_frames;
  deferred_.push_back(
      {.kind = Deferred::Kind::kFence, .path = path.id, .epoch = path.epoch, .cause = Cause::kBadFrame, .have = {}});
}

bool Session::apply_receipt(const IntervalSet& have) {
  receipted_.clear();
  if (!outbox_.on_receipt(have, receipted_)) return false;
  for (const auto& [copy, only_copy] : receipted_) {
    Path* path = find_path(copy.path);
    if (path == nullptr || !path->link || path->epoch != copy.epoch) continue;
    // The only copy must have gone out whole, or the chunk would not be in. Of several, one may still be half sent.
    if (!only_copy && copy.ticket != 0) path->link->forget(copy.ticket);
    path->chunk_in(now_, copy.bytes, only_copy);
  }
  return true;
}

}  // namespace r2ccl
