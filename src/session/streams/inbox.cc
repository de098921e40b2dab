#include "session/streams/inbox.h"

#include <fmt/format.h>

#include <algorithm>

namespace r2ccl {

namespace {

constexpr std::size_t kStreamsMax = 65536;  // a peer may name no more
constexpr std::size_t kSpareMax = 16;

}  // namespace

// ---- the application's side ----------------------------------------------------------------------------------

Result<std::uint64_t> Inbox::receive(StreamKey key, MemoryRef memory, std::uint64_t tag, std::uint64_t token) {
  if (!groups_.contains(key.group))
    return fail(Fault::kGroupEnded, fmt::format("group {:x} has not joined this session", key.group.value));
  Stream& stream = streams_[key];
  if (stream.posted - stream.first_sequence >= limits_.stream_operations_max) {
    return fail(Fault::kBusy, fmt::format("stream {}: {} receives are pending", key.stream.value,
                                          stream.posted - stream.first_sequence));
  }
  const std::uint64_t sequence = stream.posted++;
  Message& message = *message_for(stream, sequence);
  message.posted = true;
  message.token = token;
  message.memory = memory;
  if (message.begun) {
    message.oversize |= message.total > memory.length;
    finish_if_whole(key, stream, sequence);
  } else {
    message.tag = tag;
    new_credits_.push_back({key.group, key.stream, sequence, memory.length, tag});
    credit_urgent_ |= memory.length > limits_.eager_message_max;
  }
  hand_over(key, stream);
  return sequence;
}

void Inbox::end_group(GroupId group, const Error& error) {
  for (auto it = streams_.lower_bound({group, {0}}); it != streams_.end() && it->first.group == group;) {
    Stream& stream = it->second;
    std::uint64_t sequence = stream.first_sequence;
    for (Message& message : stream.messages) {
      if (message.posted && !message.delivered) {
        done_.push_back(
            {message.token, it->first.group, it->first.stream, sequence, message.tag, 0, std::unexpected(error)});
      }
      if (!message.delivered) release_eager(message.eager_charged);
      ++sequence;
    }
    it = streams_.erase(it);
  }
  std::erase_if(new_credits_, [&](const CreditEntry& credit) { return credit.group == group; });
  std::erase_if(early_, [&](const EarlyMessage& message) {
    if (message.key.group == group) release_eager(message.charge);
    return message.key.group == group;
  });
  groups_.erase(group);
}

void Inbox::fail_all(const Error& error) {
  while (!groups_.empty()) end_group(*groups_.begin(), error);
}

// ---- arriving chunks -----------------------------------------------------------------------------------------

// Null: the sequence is further ahead than any correct peer goes, or long done.
Inbox::Message* Inbox::message_for(Stream& stream, std::uint64_t sequence) {
  if (sequence < stream.first_sequence) return nullptr;
  const std::uint64_t index = sequence - stream.first_sequence;
  if (index >= 2 * limits_.stream_operations_max) return nullptr;
  while (stream.messages.size() <= index) stream.messages.emplace_back();
  return &stream.messages[index];
}

// The first chunk of a message tells its length and tag. False: it contradicts what is known.
bool Inbox::begin(Message& message, const DataBody& body) {
  if (message.begun) return message.total == body.total;
  const bool eager = (body.flags & DataBody::kEager) != 0;
  const bool oversize = (body.flags & DataBody::kOversize) != 0;
  if (!message.posted && !eager) return false;
  if (eager && body.total > limits_.eager_message_max) return false;
  if (message.posted && body.total > message.memory.length && !eager && !oversize) return false;
  message.begun = true;
  message.total = body.total;
  message.tag = body.tag;
  message.oversize = oversize || (message.posted && body.total > message.memory.length);
  if (eager && (!message.posted || message.oversize)) {
    message.eager = room_for(body.total);
  }
  return true;
}

std::unique_ptr<OwnedRegion> Inbox::room_for(std::uint64_t bytes) {
  if (!reuses_room(bytes)) return std::make_unique<OwnedRegion>(bytes);
  if (spare_.empty()) return std::make_unique<OwnedRegion>(limits_.eager_message_max);
  auto room = std::move(spare_.back());
  spare_.pop_back();
  return room;
}

Inbox::Place Inbox::place(const DataBody& body, std::uint32_t payload_bytes) {
  if (body.chunk.value >= have_.cumulative() + 2 * limits_.chunk_window) return {Ask::kRefuse, {}};
  if (have_.contains(body.chunk.value) && rules_.drop_duplicates) return {Ask::kDuplicate, {}};
  if ((body.flags & DataBody::kVoid) != 0 || !groups_.contains(body.group)) return {Ask::kDrop, {}};
  if (streams_.size() >= kStreamsMax && !streams_.contains({body.group, body.stream})) return {Ask::kRefuse, {}};
  Stream& stream = streams_[{body.group, body.stream}];
  Message* message = message_for(stream, body.sequence);
  if (message == nullptr || message->delivered) return {rules_.drop_duplicates ? Ask::kRefuse : Ask::kDrop, {}};
  if (payload_bytes > body.total || body.offset > body.total - payload_bytes) return {Ask::kRefuse, {}};
  if (!message->begun && (body.flags & DataBody::kEager) != 0 &&
      eager_held_ + eager_charge(body.total) > limits_.eager_bytes + eager_charge(0) * limits_.chunk_window)
    return {Ask::kRefuse, {}};
  if (!begin(*message, body)) return {Ask::kRefuse, {}};
  if (message->eager) return {Ask::kLand, {message->eager.get(), body.offset, payload_bytes}};
  if (message->oversize) return {payload_bytes == 0 ? Ask::kLand : Ask::kRefuse, {}};
  return {Ask::kLand, message->memory.slice(body.offset, payload_bytes)};
}

bool Inbox::on_chunk(const DataBody& body, std::uint32_t payload_bytes) {
  if (!have_.insert(body.chunk.value) && rules_.drop_duplicates) return false;
  failed_.erase(failed_.lower_bound({body.chunk, 0}), failed_.upper_bound({body.chunk, UINT16_MAX}));
  ++unreceipted_;
  const bool eager = (body.flags & DataBody::kEager) != 0;
  const StreamKey key{body.group, body.stream};
  const auto found = streams_.find(key);
  if ((body.flags & DataBody::kVoid) != 0 || found == streams_.end() || !groups_.contains(body.group)) {
    const std::uint64_t bytes = (body.flags & DataBody::kVoid) != 0 ? body.total : payload_bytes;
    if (eager) {
      eager_held_ += eager_charge(bytes);
      release_eager(eager_charge(bytes));
    }
    urgent_ = true;
    return true;
  }
  Message* message = message_for(found->second, body.sequence);
  if (message == nullptr || message->delivered) return true;
  message->received += payload_bytes;
  if (eager) {
    message->eager_charged += eager_charge(payload_bytes);
    eager_held_ += eager_charge(payload_bytes);
  }
  unreceipted_bytes_ += payload_bytes;
  urgent_ |= body.total > limits_.copy_bytes_max && (message->received >= message->total || message->oversize);
  urgent_ |= unreceipted_bytes_ >= limits_.receipt_bytes;
  finish_if_whole(key, found->second, body.sequence);
  hand_over(key, found->second);
  return true;
}

void Inbox::finish_if_whole(StreamKey key, Stream& stream, std::uint64_t sequence) {
  Message& message = *message_for(stream, sequence);
  const bool whole = message.begun && (message.received >= message.total || (message.oversize && !message.eager));
  if (!whole || !message.posted) return;
  Status status;
  std::size_t length = message.total;
  if (message.oversize) {
    status = fail(Fault::kCallsDiffer, fmt::format("message {} of {} bytes is longer than its receive of {} bytes",
                                                   sequence, message.total, message.memory.length));
    length = 0;
  } else if (message.eager && message.total != 0) {
    message.memory.region->write(message.memory.offset, message.eager->bytes().first(message.total));
  }
  message.delivered = true;
  release_eager(std::exchange(message.eager_charged, 0));
  keep_room(std::move(message.eager), message.total);
  done_.push_back({message.token, key.group, key.stream, sequence, message.tag, length, std::move(status)});
  forget_delivered(stream);
}

// Hands over in order only, so that the n-th message stays the n-th receive's, whether early or not.
void Inbox::hand_over(StreamKey key, Stream& stream) {
  if (!limits_.hand_over_early) return;
  while (stream.posted - stream.first_sequence < stream.messages.size()) {
    Message& message = stream.messages[stream.posted - stream.first_sequence];
    if (!message.begun || message.oversize || message.received < message.total) break;
    early_.push_back({key, message.tag, message.total, std::move(message.eager), message.eager_charged});
    message.posted = message.delivered = true;
    ++stream.posted;
    forget_delivered(stream);
  }
}

void Inbox::give_back(EarlyMessage message) {
  release_eager(message.charge);
  keep_room(std::move(message.memory), message.length);
}

void Inbox::forget_delivered(Stream& stream) {
  while (!stream.messages.empty() && stream.messages.front().delivered) {
    stream.messages.pop_front();
    ++stream.first_sequence;
  }
}

void Inbox::keep_room(std::unique_ptr<OwnedRegion> room, std::uint64_t bytes) {
  if (room && reuses_room(bytes) && spare_.size() < kSpareMax) spare_.push_back(std::move(room));
}

void Inbox::release_eager(std::uint64_t bytes) {
  eager_released_ += bytes;
  eager_held_ -= bytes;
  if (bytes != 0) unreceipted_ = std::max<std::size_t>(unreceipted_, 1);
}

void Inbox::on_copy_failed(const DataBody& body) {
  if (have_.contains(body.chunk.value)) return;
  if (failed_.emplace(body.chunk, body.copy).second) new_failures_.push_back({body.chunk, body.copy});
}

// ---- what the other end must be told -------------------------------------------------------------------------

std::vector<CreditEntry> Inbox::take_new_credits() {
  credit_urgent_ = false;
  std::erase_if(new_credits_, [this](const CreditEntry& credit) {
    const Stream& stream = streams_.at({credit.group, credit.stream});
    return credit.sequence < stream.first_sequence || stream.messages[credit.sequence - stream.first_sequence].begun;
  });
  return std::exchange(new_credits_, {});
}

std::vector<CreditEntry> Inbox::all_credits() const {
  std::vector<CreditEntry> credits;
  for (const auto& [key, stream] : streams_) {
    std::uint64_t sequence = stream.first_sequence;
    for (const Message& message : stream.messages) {
      if (message.posted && !message.delivered && !message.begun)
        credits.push_back({key.group, key.stream, sequence, message.memory.length, message.tag});
      ++sequence;
    }
  }
  return credits;
}

std::vector<CopyName> Inbox::failed_copies() const {
  std::vector<CopyName> copies;
  for (const auto& [chunk, copy] : failed_) copies.push_back({chunk, copy});
  return copies;
}

}  // namespace r2ccl
