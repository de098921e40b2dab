#include "transport/stream/frame_sender.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"

namespace r2ccl {
namespace {

constexpr std::size_t kFirstRing = 16;
constexpr std::array<std::byte, kFrameAlignment> kZeros{};
constexpr std::size_t kAlignedPayload = 16 * 1024;  // smaller payloads gain nothing by it

// How much padding a frame needs: a large payload is put where its memory lies within a cache line, a small one at the
// end of its line, so that no zeros have to follow it.
std::size_t padding_for(const MemoryRef& payload, std::size_t head_bytes, bool align) {
  const std::byte* host = payload.region->host();
  if (!align || payload.length < kAlignedPayload || host == nullptr) return rest_of_line(head_bytes + payload.length);
  return (reinterpret_cast<std::uintptr_t>(host) + payload.offset - head_bytes) % kFrameAlignment;
}

}  // namespace

void FrameSender::Batch::add(ByteView part) {
  if (part.empty()) return;
  parts[count++] = part;
  bytes += part.size();
}

Result<Ticket> FrameSender::post(const OutFrame& frame) {
  if (frame.body.size() > kBodyBytesMax) return fail(Fault::kMisuse, "a frame's body is longer than kBodyBytesMax");
  if (frame.header.payload_bytes == 0) return post_control(frame);
  if (frame.header.payload_bytes > kPayloadBytesMax) {
    return fail(Fault::kMisuse, "a frame's payload is longer than kPayloadBytesMax");
  }
  if (frame.payload.region == nullptr || frame.payload.length != frame.header.payload_bytes) {
    return fail(Fault::kMisuse, "a frame's payload is not as long as its header says");
  }
  return post_data(frame);
}

Result<Ticket> FrameSender::post_control(const OutFrame& frame) {
  const std::size_t used = kHeaderBytes + frame.body.size();
  const std::size_t bytes = used + rest_of_line(used);
  if (control_.size() - control_at_ + bytes > limits_.control_queue_bytes) {
    return fail(Fault::kBusy, "the queue of frames without payload is full");
  }
  if (control_at_ > 0 && control_.size() + bytes > limits_.control_queue_bytes) {
    control_.erase(control_.begin(), control_.begin() + static_cast<std::ptrdiff_t>(control_at_));
    control_at_ = 0;
  }
  const std::size_t start = control_.size();
  control_.resize(start + bytes);
  encode_header(frame.header, frame.body, nullptr, 0, control_.data() + start);
  std::ranges::copy(frame.body, control_.data() + start + kHeaderBytes);
  queued_bytes_ += bytes;
  return Ticket{0};
}

Result<Ticket> FrameSender::post_data(const OutFrame& frame) {
  if (count_ >= limits_.data_queue_frames) return fail(Fault::kBusy, "the queue of frames with payload is full");
  if (count_ == ring_.size()) grow();
  Slot& slot = at(count_++);
  slot.ticket = next_ticket_++;
  slot.header = frame.header;
  slot.payload = frame.payload;
  slot.padding = padding_for(frame.payload, kHeaderBytes + frame.body.size(), limits_.align_payloads);
  slot.head.assign(kHeaderBytes + frame.body.size() + slot.padding, std::byte{0});
  std::ranges::copy(frame.body, slot.head.data() + kHeaderBytes);
  slot.sent = 0;
  slot.sealed = false;
  queued_bytes_ += slot.bytes();
  return slot.ticket;
}

bool FrameSender::forget(Ticket ticket) {
  std::size_t low = 0;
  std::size_t high = count_;
  while (low < high) {  // tickets ascend along the ring
    const std::size_t middle = (low + high) / 2;
    if (at(middle).ticket < ticket) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == count_ || at(low).ticket != ticket) return true;
  if (at(low).sent > 0) {
    keep_rest(at(low));
    return true;
  }
  erase(low);
  return false;
}

// Only the first frame can be half sent, so one buffer is enough.
void FrameSender::keep_rest(Slot& slot) {
  if (slot.payload.region == &rest_region_) return;
  if (slot.sent >= slot.payload_end()) return;
  const std::size_t from = slot.sent > slot.head.size() ? slot.sent - slot.head.size() : 0;
  rest_.resize(slot.header.payload_bytes);
  slot.payload.region->read(slot.payload.offset + from, std::span(rest_).subspan(from));
  rest_region_ = HostRegion(rest_.data(), rest_.size());
  slot.payload = {&rest_region_, 0, rest_.size()};
}

void FrameSender::erase(std::size_t index) {
  queued_bytes_ -= at(index).bytes();
  for (; index + 1 < count_; ++index) std::swap(at(index), at(index + 1));
  --count_;
}

void FrameSender::grow() {
  std::vector<Slot> larger(std::max(kFirstRing, 2 * ring_.size()));
  for (std::size_t i = 0; i < count_; ++i) larger[i] = std::move(at(i));
  ring_ = std::move(larger);
  first_ = 0;
}

void FrameSender::clear() {
  control_.clear();
  control_at_ = 0;
  count_ = 0;
  queued_bytes_ = 0;
}

Io FrameSender::flush(Stream& stream, std::size_t bytes_max) {
  Io total;
  while (!empty() && stream.writable() && total.bytes < bytes_max) {
    batch_.count = batch_.bytes = 0;
    gather(batch_);
    if (batch_.count > 1 && batch_.bytes <= kSmallWrite) join(batch_);
    const Io io = stream.write(std::span(batch_.parts).first(batch_.count));
    advance(io.bytes);
    total.bytes += io.bytes;
    total.cause = io.cause;
    total.would_block = io.would_block;
    if (io.cause != Cause::kNone || io.would_block) break;
  }
  return total;
}

// Copying a little is cheaper than telling the kernel about many parts.
void FrameSender::join(Batch& batch) {
  small_.resize(kSmallWrite);
  std::byte* end = small_.data();
  for (const ByteView& part : std::span(batch.parts).first(batch.count)) end = std::ranges::copy(part, end).out;
  batch.parts[0] = ByteView(small_.data(), end);
  batch.count = 1;
}

// Fills a batch in the order of the wire: the rest of a frame already begun, every frame without payload, then frames
// with payload.
void FrameSender::gather(Batch& batch) {
  std::size_t next = 0;
  if (count_ > 0 && at(0).sent > 0) {
    if (!gather_frame(at(0), batch)) return;
    next = 1;
  }
  batch.add(ByteView(control_).subspan(control_at_));
  const std::size_t enough = limits_.checksum ? kCheckedWriteBytes : kWriteBytes;
  // A frame takes three parts.
  while (next < count_ && batch.bytes < enough && batch.count + 3 <= kPartsMax) {
    if (!gather_frame(at(next), batch)) return;
    ++next;
  }
}

// False: only a part of the frame fitted into the batch, so nothing may follow it there.
bool FrameSender::gather_frame(Slot& slot, Batch& batch) {
  if (!slot.sealed) seal(slot);
  if (slot.sent < slot.head.size()) batch.add(ByteView(slot.head).subspan(slot.sent));
  if (slot.sent < slot.payload_end() && !gather_payload(slot, batch)) return false;
  batch.add(ByteView(kZeros).first(slot.bytes() - std::max(slot.sent, slot.payload_end())));
  return true;
}

bool FrameSender::gather_payload(Slot& slot, Batch& batch) {
  std::size_t from = slot.sent > slot.head.size() ? slot.sent - slot.head.size() : 0;
  const std::size_t end = slot.header.payload_bytes;
  if (const std::byte* host = slot.payload.region->host(); host != nullptr) {
    batch.add(ByteView(host + slot.payload.offset + from, end - from));
    return true;
  }
  // Only one staged piece per write, because the buffer must hold it until the stream has copied it.
  const std::size_t count = std::min(kStageBytes, end - from);
  slot.payload.region->read(slot.payload.offset + from, {stage(), count});
  batch.add(ByteView(stage(), count));
  return false;
}

// Computes the checksum and writes the header. This is done late, so that post() is cheap and the payload is still in
// the cache when the stream reads it.
void FrameSender::seal(Slot& slot) {
  std::uint32_t crc = 0;
  if (limits_.checksum) crc = checksum(slot.payload);
  const ByteView body = ByteView(slot.head).subspan(kHeaderBytes, slot.head.size() - kHeaderBytes - slot.padding);
  encode_header(slot.header, body, limits_.checksum ? &crc : nullptr, slot.padding, slot.head.data());
  slot.sealed = true;
}

std::uint32_t FrameSender::checksum(const MemoryRef& payload) {
  if (const std::byte* host = payload.region->host(); host != nullptr) {
    return crc32c(0, ByteView(host + payload.offset, payload.length));
  }
  std::uint32_t crc = 0;
  for (std::size_t from = 0; from < payload.length;) {
    const std::size_t count = std::min(kStageBytes, payload.length - from);
    payload.region->read(payload.offset + from, {stage(), count});
    crc = crc32c(crc, ByteView(stage(), count));
    from += count;
  }
  return crc;
}

std::byte* FrameSender::stage() {
  if (stage_.empty()) stage_.resize(kStageBytes);
  return stage_.data();
}

// The same order as gather().
void FrameSender::advance(std::size_t bytes) {
  queued_bytes_ -= bytes;
  if (count_ > 0 && at(0).sent > 0) bytes -= advance_front(bytes);
  const std::size_t control = std::min(bytes, control_.size() - control_at_);
  control_at_ += control;
  bytes -= control;
  if (control_at_ == control_.size()) {
    control_.clear();
    control_at_ = 0;
  }
  while (bytes > 0) bytes -= advance_front(bytes);
}

std::size_t FrameSender::advance_front(std::size_t bytes) {
  Slot& front = at(0);
  const std::size_t count = std::min(bytes, front.bytes() - front.sent);
  front.sent += count;
  if (front.sent == front.bytes()) {
    first_ = (first_ + 1) % ring_.size();
    --count_;
  }
  return count;
}

}  // namespace r2ccl
