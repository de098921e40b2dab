#pragma once
// What tests of links share: memory the processor can not address, and a sink that remembers.

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/assert.h"
#include "transport/link.h"
#include "transport/stream/frame.h"

namespace r2ccl {

class UnmappedRegion final : public Region {
 public:
  explicit UnmappedRegion(Bytes bytes) : bytes_(std::move(bytes)) {}
  std::byte* host() override { return nullptr; }
  std::size_t size() const override { return bytes_.size(); }
  void read(std::size_t offset, std::span<std::byte> out) override {
    R2CCL_ASSERT(offset + out.size() <= bytes_.size(), "read beyond the region");
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  void write(std::size_t offset, ByteView in) override {
    R2CCL_ASSERT(offset + in.size() <= bytes_.size(), "write beyond the region");
    std::memcpy(bytes_.data() + offset, in.data(), in.size());
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

inline Bytes to_bytes(std::string_view text) {
  const auto raw = std::as_bytes(std::span(text));
  return {raw.begin(), raw.end()};
}

// A frame of so many bytes, with the zeros that end its last line.
constexpr std::size_t whole_lines(std::size_t bytes) {
  return bytes + rest_of_line(bytes);
}

// Bytes that differ at neighbouring and at distant places.
inline Bytes pattern(std::size_t size, std::uint32_t seed = 1) {
  Bytes bytes(size);
  std::uint32_t x = seed * 2654435761u + 1;
  for (std::byte& b : bytes) {
    x = x * 1664525u + 1013904223u;
    b = static_cast<std::byte>(x >> 24);
  }
  return bytes;
}

// Lands every payload in a buffer of its own and remembers every frame.
class RecordingSink final : public FrameSink {
 public:
  enum class Memory : std::uint8_t { kHost, kUnmapped, kNone };
  struct Frame {
    FrameHeader header;
    Bytes body;
    Payload payload;
    Bytes bytes;  // of the payload, where it landed
  };

  Memory memory = Memory::kHost;
  std::function<void(Link&, const FrameHeader&)> at_header;  // what the sink does besides
  std::function<void(Link&, const Frame&)> at_frame;
  std::vector<Frame> frames;

  Landing on_header(Link& link, const FrameHeader& header, ByteView) override {
    if (at_header) at_header(link, header);
    buffer_.assign(header.payload_bytes, std::byte{0xEE});
    host_ = std::make_unique<HostRegion>(buffer_.data(), buffer_.size());
    unmapped_ = std::make_unique<UnmappedRegion>(buffer_);
    if (memory == Memory::kNone) return {};
    Region* const region = memory == Memory::kHost ? static_cast<Region*>(host_.get()) : unmapped_.get();
    return {MemoryRef{region, 0, header.payload_bytes}};
  }
  void on_frame(Link& link, const FrameHeader& header, ByteView body, Payload payload) override {
    Frame frame{header, Bytes(body.begin(), body.end()), payload, {}};
    // A frame finished from inside on_header() is discarded before there is any landing memory.
    if (payload != Payload::kNone && unmapped_) {
      frame.bytes = memory == Memory::kUnmapped ? unmapped_->bytes() : buffer_;
    }
    frames.push_back(frame);
    if (at_frame) at_frame(link, frame);
    // A body must stay what it was whatever the callback did to the link.
    R2CCL_ASSERT(std::equal(body.begin(), body.end(), frame.body.begin(), frame.body.end()), "the body changed");
  }

  const Bytes& buffer() const { return buffer_; }

 private:
  Bytes buffer_;
  std::unique_ptr<HostRegion> host_;
  std::unique_ptr<UnmappedRegion> unmapped_;
};

inline OutFrame control_frame(std::uint8_t type, ByteView body) {
  return {.header = {.type = type, .path = {{1}, {2}}, .epoch = {7}, .payload_bytes = 0}, .body = body, .payload = {}};
}

inline OutFrame data_frame(std::uint8_t type, ByteView body, Region& region) {
  const auto size = static_cast<std::uint32_t>(region.size());
  return {.header = {.type = type, .path = {{1}, {2}}, .epoch = {7}, .payload_bytes = size},
          .body = body,
          .payload = {&region, 0, size}};
}

}  // namespace r2ccl
