#include "session/streams/outbox.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"

namespace r2ccl {

namespace {

constexpr std::size_t kSpareBuffersMax = 64;
// To reach more paths a message is cut into smaller chunks, but not smaller than this, nor than a small part of what
// limits.chunk_time allows.
constexpr std::uint64_t kChunkBytesMin = 8 * 1024;
constexpr std::uint64_t kFinest = 8;
constexpr std::uint64_t kFinestMost = 32 * 1024;

}  // namespace

// ---- the application's side ----------------------------------------------------------------------------------

Result<std::uint64_t> Outbox::send(StreamKey key, MemoryRef memory, std::uint64_t tag, std::uint64_t token,
                                   std::optional<NicId> nic) {
  if (!groups_.contains(key.group))
    return fail(Fault::kGroupEnded, fmt::format("group {:x} has not joined this session", key.group.value));
  Stream& stream = streams_[key];
  if (stream.messages.size() >= limits_.stream_operations_max)
    return fail(Fault::kBusy, fmt::format("stream {}: {} sends are pending", key.stream.value, stream.messages.size()));
  const std::uint64_t sequence = stream.first_sequence + stream.messages.size();
  Message& message = stream.messages.emplace_back();
  message.token = token;
  message.tag = tag;
  message.memory = memory;
  message.nic = nic;
  ++unfinished_;
  const bool small = memory.length <= limits_.copy_bytes_max;
  if (small && !limits_.callers_copy && keep_copy(message)) complete(key, sequence, message, {});
  make_ready(key, stream);
  return sequence;
}

// Small messages move into the session's own memory, so that they complete at once.
bool Outbox::keep_copy(Message& message) {
  const std::size_t length = message.memory.length;
  if (copied_bytes_ + length > limits_.replay_buffer_bytes) return false;
  if (spare_.empty()) {
    message.copy = std::make_unique<OwnedRegion>(limits_.copy_bytes_max);
  } else {
    message.copy = std::move(spare_.back());
    spare_.pop_back();
  }
  if (length != 0) message.memory.region->read(message.memory.offset, message.copy->bytes().first(length));
  message.memory = {message.copy.get(), 0, length};
  copied_bytes_ += length;
  return true;
}

void Outbox::complete(StreamKey key, std::uint64_t sequence, Message& message, Status status) {
  if (message.completed) return;
  message.completed = true;
  done_.push_back(
      {message.token, key.group, key.stream, sequence, message.tag, message.memory.length, std::move(status)});
}

Outbox::Ended Outbox::end_group(GroupId group, const Error& error) {
  Ended ended;
  for (OutChunk& chunk : chunks_) {
    if (chunk.key.group != group || chunk.receipted) continue;
    // A half-sent chunk stays under way. The number of one that never went out would be missing at the other end, so a
    // void chunk must deliver it.
    chunk.flags |= DataBody::kVoid;
    for (const Copy& copy : chunk.copies) ended.copies.push_back({chunk.id, copy});
  }
  for (auto it = streams_.lower_bound({group, {0}}); it != streams_.end() && it->first.group == group;) {
    Stream& stream = it->second;
    std::uint64_t sequence = stream.first_sequence;
    for (Message& message : stream.messages) {
      if (!message.finished) --unfinished_;
      if (message.copy) copied_bytes_ -= message.memory.length;
      complete(it->first, sequence++, message, std::unexpected(error));
      if (message.copy) ended.memory.push_back(std::move(message.copy));
    }
    std::erase(ready_, it->first);
    it = streams_.erase(it);
  }
  groups_.erase(group);
  return ended;
}

void Outbox::fail_all(const Error& error) {
  while (!groups_.empty()) end_group(groups_.begin()->first, error);
  chunks_.clear();
  resend_.clear();
}

// ---- what the peer says --------------------------------------------------------------------------------------

void Outbox::on_group_joined(GroupId group) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  found->second = true;
  for (auto it = streams_.lower_bound({group, {0}}); it != streams_.end() && it->first.group == group; ++it)
    make_ready(it->first, it->second);
}

bool Outbox::on_credit(const CreditEntry& credit) {
  const StreamKey key{credit.group, credit.stream};
  if (!groups_.contains(key.group)) return true;  // it has ended here
  Stream& stream = streams_[key];
  if (credit.sequence < stream.next_cut) return true;
  if (!stream.credits.contains(credit.sequence) && stream.credits.size() >= limits_.stream_operations_max) return false;
  stream.credits[credit.sequence] = credit;
  make_ready(key, stream);
  return true;
}

void Outbox::on_eager_released(std::uint64_t cumulative) {
  if (cumulative <= eager_released_ || cumulative > eager_used_) return;
  eager_released_ = cumulative;
  for (auto& [key, stream] : streams_)
    if (stream.eager_waiting) make_ready(key, stream);
}

bool Outbox::on_receipt(const IntervalSet& have, std::vector<Receipted>& forgotten) {
  const std::uint64_t top = have.ranges().empty() ? have.cumulative() - 1 : have.ranges().back().last;
  if (top >= next_chunk_) return false;
  if (chunks_.empty()) return true;
  const std::uint64_t base = chunks_.front().id.value;
  for (std::uint64_t id = base; id < have.cumulative(); ++id) receipt_one(chunks_[id - base], forgotten);
  for (const IntervalSet::Range& range : have.ranges()) {
    for (std::uint64_t id = std::max(range.first, base); id <= range.last; ++id)
      receipt_one(chunks_[id - base], forgotten);
  }
  receipts_.merge(have);
  pop_finished();
  return true;
}

void Outbox::receipt_one(OutChunk& chunk, std::vector<Receipted>& forgotten) {
  if (chunk.receipted) return;
  chunk.receipted = true;
  for (const Copy& copy : chunk.copies) forgotten.push_back({copy, chunk.copies_made == 1});
  chunk.copies.clear();
  const auto found = streams_.find(chunk.key);
  if ((chunk.flags & DataBody::kVoid) != 0 || found == streams_.end()) return;
  Stream& stream = found->second;
  Message& message = stream.messages[chunk.sequence - stream.first_sequence];
  message.receipted += chunk.length;
  if (!message.cut_all || message.receipted < message.cut) return;
  message.finished = true;
  --unfinished_;
  Status status;
  if ((message.flags & DataBody::kOversize) != 0) {
    status = fail(Fault::kCallsDiffer, fmt::format("message {} of {} bytes is longer than the receive posted for it",
                                                   chunk.sequence, message.memory.length));
  }
  complete(chunk.key, chunk.sequence, message, std::move(status));
  if (message.copy) {
    copied_bytes_ -= message.memory.length;
    if (spare_.size() < kSpareBuffersMax) spare_.push_back(std::move(message.copy));
    message.copy.reset();
  }
  while (!stream.messages.empty() && stream.messages.front().finished) {
    stream.messages.pop_front();
    ++stream.first_sequence;
  }
}

void Outbox::pop_finished() {
  for (; !chunks_.empty() && chunks_.front().receipted; chunks_.pop_front()) {
    if (spare_copies_.size() < kSpareBuffersMax) spare_copies_.push_back(std::move(chunks_.front().copies));
  }
}

std::optional<Copy> Outbox::on_copy_lost(const CopyName& name) {
  OutChunk* chunk = find(name.chunk);
  if (chunk == nullptr || chunk->receipted) return std::nullopt;
  const auto found = std::find_if(chunk->copies.begin(), chunk->copies.end(),
                                  [&](const Copy& copy) { return copy.number == name.copy; });
  if (found == chunk->copies.end()) return std::nullopt;
  const Copy lost = *found;
  chunk->copies.erase(found);
  if (chunk->copies.empty()) enqueue(*chunk, SendReason::kResend);
  return lost;
}

void Outbox::on_path_fenced(PathId path, Epoch epoch) {
  bool skip = !rules_.exact_replay_boundary;  // the broken rule starts one chunk too late
  for (OutChunk& chunk : chunks_) {
    if (chunk.receipted) continue;
    const auto lost =
        std::erase_if(chunk.copies, [&](const Copy& copy) { return copy.path == path && copy.epoch <= epoch; });
    if (lost == 0 || !chunk.copies.empty()) continue;
    if (!std::exchange(skip, false)) enqueue(chunk, SendReason::kReplay);
  }
}

std::optional<ChunkId> Outbox::oldest_on(PathId path, Epoch epoch) const {
  for (const OutChunk& chunk : chunks_) {
    for (const Copy& copy : chunk.copies)
      if (copy.path == path && copy.epoch == epoch && !chunk.receipted) return chunk.id;
  }
  return std::nullopt;
}

void Outbox::enqueue(OutChunk& chunk, SendReason reason) {
  if (std::exchange(chunk.queued, true)) return;
  chunk.queued_for = reason;
  resend_.push_back(chunk.id);
}

// ---- transmission --------------------------------------------------------------------------------------------

bool Outbox::may_send(StreamKey key, Stream& stream) {
  const std::uint64_t index = stream.next_cut - stream.first_sequence;
  if (index >= stream.messages.size() || !groups_.at(key.group)) return false;
  const Message& message = stream.messages[index];
  if (message.started || stream.credits.contains(stream.next_cut)) return true;
  if (message.memory.length > limits_.eager_message_max) return false;
  const std::uint64_t least = std::min<std::uint64_t>(limits_.chunk_bytes, kChunkBytesMin);
  const bool fits = eager_used_ - eager_released_ + eager_cost(message.memory.length, least) <= eager_granted_;
  stream.eager_waiting = !fits;
  return fits;
}

void Outbox::make_ready(StreamKey key, Stream& stream) {
  if (stream.ready || !may_send(key, stream)) return;
  stream.ready = true;
  ready_.push_back(key);
}

std::optional<std::uint32_t> Outbox::next_length(std::size_t paths, std::uint64_t chunk_max) {
  paths_ = std::max<std::size_t>(paths, 1);
  chunk_max_ = std::min<std::uint64_t>(chunk_max, limits_.chunk_bytes);
  next_nic_.reset();
  while (!resend_.empty()) {
    OutChunk* chunk = find(resend_.front());
    if (chunk != nullptr && !chunk->receipted && chunk->queued)
      return (chunk->flags & DataBody::kVoid) != 0 ? 0 : chunk->length;
    if (chunk != nullptr) chunk->queued = false;
    resend_.pop_front();
  }
  if (next_chunk_ - receipts_.cumulative() >= limits_.chunk_window) return std::nullopt;
  while (!ready_.empty()) {
    const StreamKey key = ready_.front();
    Stream& stream = streams_.at(key);
    if (may_send(key, stream)) {
      Message& message = stream.messages[stream.next_cut - stream.first_sequence];
      start(stream, message);
      next_nic_ = message.nic;
      if ((message.flags & DataBody::kOversize) != 0) return 0;
      return static_cast<std::uint32_t>(
          std::min<std::uint64_t>(message.chunk_bytes, message.memory.length - message.cut));
    }
    stream.ready = false;
    ready_.pop_front();
  }
  return std::nullopt;
}

void Outbox::skip_next() {
  ready_.push_back(ready_.front());
  ready_.pop_front();
}

// To the byte what the receiver will charge for an eager message, and release in the end.
std::uint64_t Outbox::eager_cost(std::uint64_t length, std::uint64_t chunk_bytes) {
  const std::uint64_t chunks = std::max<std::uint64_t>(1, (length + chunk_bytes - 1) / chunk_bytes);
  return length + chunks * eager_charge(0);
}

// Decides once how a message travels: on a credit or on the eager grant, and in chunks of which size.
void Outbox::start(Stream& stream, Message& message) {
  if (std::exchange(message.started, true)) return;
  const std::uint64_t length = message.memory.length;
  const auto credit = stream.credits.find(stream.next_cut);
  if (credit == stream.credits.end()) {
    message.flags |= DataBody::kEager;
  } else {
    if (credit->second.capacity < length) message.flags |= DataBody::kOversize;
    stream.credits.erase(credit);
  }
  const bool eager = (message.flags & DataBody::kEager) != 0;
  const auto pages = [](std::uint64_t bytes) { return bytes & ~4095ull; };
  const std::uint64_t least = std::clamp<std::uint64_t>(pages(chunk_max_ / kFinest), kChunkBytesMin, kFinestMost);
  const std::uint64_t most = std::max(least, chunk_max_);
  const std::uint64_t paths = message.nic ? 1 : paths_;
  const std::uint64_t even = pages((length + paths - 1) / paths + 4095);
  message.chunk_bytes =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(limits_.chunk_bytes, std::clamp(even, least, most)));
  if (eager) eager_used_ += eager_cost(length, message.chunk_bytes);
}

OutChunk& Outbox::take_next(SendReason& reason) {
  if (!resend_.empty()) {
    OutChunk* chunk = find(resend_.front());
    R2CCL_ASSERT(chunk != nullptr && chunk->queued, "take_next follows next_length");
    resend_.pop_front();
    chunk->queued = false;
    reason = chunk->queued_for;
    return *chunk;
  }
  R2CCL_ASSERT(!ready_.empty(), "take_next follows next_length");
  const StreamKey key = ready_.front();
  ready_.pop_front();
  Stream& stream = streams_.at(key);
  stream.ready = false;
  Message& message = stream.messages[stream.next_cut - stream.first_sequence];
  OutChunk& chunk = chunks_.emplace_back();
  if (!spare_copies_.empty()) {
    chunk.copies = std::move(spare_copies_.back());
    spare_copies_.pop_back();
  }
  chunk.id = {next_chunk_++};
  chunk.key = key;
  chunk.sequence = stream.next_cut;
  chunk.offset = message.cut;
  chunk.flags = message.flags;
  if ((message.flags & DataBody::kOversize) == 0) {
    chunk.length =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(message.chunk_bytes, message.memory.length - message.cut));
  }
  message.cut += chunk.length;
  if (message.cut == message.memory.length || (message.flags & DataBody::kOversize) != 0) {
    message.cut_all = true;
    ++stream.next_cut;
  }
  make_ready(key, stream);
  reason = SendReason::kFirst;
  return chunk;
}

OutChunk* Outbox::find(ChunkId id) {
  if (chunks_.empty() || id < chunks_.front().id || id.value >= next_chunk_) return nullptr;
  return &chunks_[id.value - chunks_.front().id.value];
}

DataBody Outbox::describe(const OutChunk& chunk) const {
  DataBody body{.chunk = chunk.id, .group = chunk.key.group, .stream = chunk.key.stream, .sequence = chunk.sequence};
  body.copy = chunk.copies_made;
  body.flags = chunk.flags;
  body.offset = chunk.offset;
  const auto found = streams_.find(chunk.key);
  if ((chunk.flags & DataBody::kVoid) != 0 || found == streams_.end()) {
    body.offset = 0;
    body.total = chunk.length;  // so much of the eager grant the receiver gives back
    return body;
  }
  const Message& message = found->second.messages[chunk.sequence - found->second.first_sequence];
  body.tag = message.tag;
  body.total = message.memory.length;
  return body;
}

MemoryRef Outbox::payload(const OutChunk& chunk) const {
  const auto found = streams_.find(chunk.key);
  if ((chunk.flags & (DataBody::kVoid | DataBody::kOversize)) != 0 || found == streams_.end()) return {};
  const Message& message = found->second.messages[chunk.sequence - found->second.first_sequence];
  return message.memory.slice(chunk.offset, chunk.length);
}

void Outbox::sent(OutChunk& chunk, const Copy& copy) {
  ++chunk.copies_made;
  chunk.copies.push_back(copy);
  if (rules_.release_on_receipt) return;
  const auto found = streams_.find(chunk.key);
  if (found == streams_.end() || (chunk.flags & DataBody::kVoid) != 0) return;
  Message& message = found->second.messages[chunk.sequence - found->second.first_sequence];
  if (message.cut_all) complete(chunk.key, chunk.sequence, message, {});
}

void Outbox::put_back(OutChunk& chunk, SendReason reason) {
  chunk.queued = true;
  chunk.queued_for = reason;
  resend_.push_front(chunk.id);
}

}  // namespace r2ccl
