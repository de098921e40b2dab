#pragma once
// The sending half of a StreamLink: two bounded queues, drained in vectored writes straight from the frames' memory.
//
// Frames without payload are encoded at once into one run of bytes, so a backlog of them is one part of a write. Frames
// with payload wait in a ring whose buffers are reused. At every frame boundary those without payload go first. A
// payload is read twice, both times shortly before its first byte goes out: for its checksum, and by the stream.

#include <array>
#include <vector>

#include "transport/link.h"
#include "transport/stream/frame.h"
#include "transport/stream/stream.h"
#include "transport/stream/stream_limits.h"

namespace r2ccl {

class FrameSender final {
 public:
  explicit FrameSender(const StreamLimits& limits) : limits_(limits) {}

  Result<Ticket> post(const OutFrame& frame);
  // As Link::forget(). True also for a ticket that is not in the queue, because it went out or the queue was cleared.
  bool forget(Ticket ticket);
  // Writes until everything is out, the stream takes no more or about `bytes_max` are written. Returns the sum; `cause`
  // says whether the stream is over.
  Io flush(Stream& stream, std::size_t bytes_max);
  void clear();

  bool empty() const { return count_ == 0 && control_at_ == control_.size(); }
  std::size_t queued_bytes() const { return queued_bytes_; }

 private:
  // A frame with payload. `head` is header, body and padding; zeros fill the frame's last cache line.
  struct Slot {
    Ticket ticket = 0;
    FrameHeader header;
    MemoryRef payload;
    Bytes head;
    std::size_t padding = 0;
    std::size_t sent = 0;  // bytes of head, payload and zeros that went out
    bool sealed = false;   // checksum computed, header written into `head`

    std::size_t payload_end() const { return head.size() + header.payload_bytes; }
    std::size_t bytes() const { return payload_end() + rest_of_line(payload_end()); }
  };

  static constexpr std::size_t kPartsMax = 64;
  // A write ends with the frame that makes it this long. Few long writes cost much less than many short ones, because
  // between two of them the stream deals with what comes the other way. With checksums a write is shorter, so that what
  // was just checksummed is still in the cache when the stream copies it.
  static constexpr std::size_t kWriteBytes = 1024 * 1024;
  static constexpr std::size_t kCheckedWriteBytes = 512 * 1024;
  static constexpr std::size_t kSmallWrite = 1024;       // copied into one part
  static constexpr std::size_t kStageBytes = 64 * 1024;  // for memory the processor can not address

  struct Batch {
    std::array<ByteView, kPartsMax> parts;
    std::size_t count = 0;
    std::size_t bytes = 0;
    void add(ByteView part);
  };

  Result<Ticket> post_control(const OutFrame& frame);
  Result<Ticket> post_data(const OutFrame& frame);
  void gather(Batch& batch);
  void join(Batch& batch);
  bool gather_frame(Slot& slot, Batch& batch);
  bool gather_payload(Slot& slot, Batch& batch);
  void seal(Slot& slot);
  std::uint32_t checksum(const MemoryRef& payload);
  void advance(std::size_t bytes);
  std::size_t advance_front(std::size_t bytes);
  void keep_rest(Slot& slot);
  void erase(std::size_t index);
  void grow();
  std::byte* stage();
  Slot& at(std::size_t index) { return ring_[(first_ + index) % ring_.size()]; }

  const StreamLimits limits_;
  Bytes control_;
  std::size_t control_at_ = 0;  // sent so far
  std::vector<Slot> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  Ticket next_ticket_ = 1;
  std::size_t queued_bytes_ = 0;
  std::vector<std::byte> stage_;
  Batch batch_;  // what the next write takes
  Bytes small_;
  Bytes rest_;  // payload of a forgotten frame that was half sent
  HostRegion rest_region_{nullptr, 0};
};

}  // namespace r2ccl
