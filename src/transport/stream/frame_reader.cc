#include "transport/stream/frame_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/crc32c.h"

namespace r2ccl {
namespace {

struct DepthGuard {
  explicit DepthGuard(int& depth) : depth_(depth) { ++depth_; }
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  int& depth_;
};

}  // namespace

FrameReader::Outcome FrameReader::read(Stream& stream, Link& link, FrameSink& sink, std::size_t bytes_max,
                                       Until until) {
  Outcome outcome;
  if (stopped_) return outcome;
  if (depth_ > 0) keep_callers_buffers();
  const DepthGuard guard(depth_);
  if (begin_ != end_ && !parse(link, sink, outcome)) return outcome;
  std::size_t total = 0;
  while (!stopped_ && total < bytes_max && (until == Until::kAll || stream.readable())) {
    const Io io = phase_ == Phase::kHeader ? fill(stream) : fill_payload(stream);
    total += io.bytes;
    if (io.bytes > 0) {
      outcome.moved = true;
      if (!parse(link, sink, outcome)) return outcome;
    }
    if (io.cause != Cause::kNone) {
      outcome.cause = io.cause;
      return outcome;
    }
    if (io.would_block || io.bytes == 0) break;
  }
  return outcome;
}

void FrameReader::stop() {
  stopped_ = true;
  landing_.reset();
}

// The callback that calls read() may still look at a body in these buffers, so they are kept for it and reading goes
// on in copies.
void FrameReader::keep_callers_buffers() {
  R2CCL_ASSERT(depth_ == 1, "a link is read from inside a frame that is delivered from inside another one");
  kept_staging_ = std::exchange(staging_, Bytes(staging_));
  kept_body_ = std::exchange(body_, Bytes(body_));
}

void FrameReader::make_room() {
  if (staging_.empty()) staging_.resize(kStagingBytes);
  if (begin_ == 0) return;
  std::memmove(staging_.data(), staging_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

Io FrameReader::fill(Stream& stream) {
  make_room();
  // The staged part of a payload is copied twice, so it is kept short.
  const ReadPart part{staging_.data() + end_, large_ && end_ == 0 ? kShortTail : kStagingBytes - end_};
  const Io io = stream.read({&part, 1});
  end_ += io.bytes;
  return io;
}

// Called when staging is empty: everything that was staged belonged to this payload.
Io FrameReader::fill_payload(Stream& stream) {
  make_room();
  const std::size_t left = frame_.payload_bytes - received_;
  const ReadPart target = payload_target();
  const std::size_t tail = target.size < left ? 0 : large_ ? kShortTail : kStagingBytes;
  const std::array<ReadPart, 2> parts{target, ReadPart{staging_.data(), tail}};
  const Io io = stream.read(std::span(parts).first(tail > 0 ? 2 : 1));
  const std::size_t of_payload = std::min(io.bytes, target.size);
  const ByteView bytes(target.data, of_payload);
  if (landing_ && target.data == scratch_.data()) {
    place(bytes);
  } else {
    count_payload(bytes);
  }
  end_ = io.bytes - of_payload;
  return io;
}

ReadPart FrameReader::payload_target() {
  const std::size_t left = frame_.payload_bytes - received_;
  if (landing_) {
    if (std::byte* host = landing_->region->host(); host != nullptr) {
      return {host + landing_->offset + received_,
              frame_.payload_checksummed() ? std::min(left, kCheckedReadBytes) : left};
    }
  }
  if (scratch_.empty()) scratch_.resize(kScratchBytes);
  return {scratch_.data(), std::min(left, kScratchBytes)};
}

// Handles what is staged. False: stop reading; `outcome` or stopped_ says why.
bool FrameReader::parse(Link& link, FrameSink& sink, Outcome& outcome) {
  bool more = true;
  while (more) {
    if (phase_ == Phase::kHeader) {
      more = parse_head(link, sink, outcome);
      if (outcome.problem != nullptr) return false;
    } else {
      more = take_staged_payload(link, sink);
    }
    outcome.moved |= more;
    if (stopped_) return false;
  }
  return true;
}

// Handles a frame's head. False: it is not whole yet, or it is bad.
bool FrameReader::parse_head(Link& link, FrameSink& sink, Outcome& outcome) {
  const std::size_t skipped = std::min(rest_, end_ - begin_);
  consume(skipped);
  rest_ -= skipped;
  const ByteView in = staged();
  if (in.size() < kHeaderBytes) return false;
  WireHeader wire;
  outcome.problem = decode_header(in.data(), wire);
  if (outcome.problem == nullptr) {
    const std::size_t head_bytes = kHeaderBytes + wire.body_bytes + wire.padding();
    if (in.size() < head_bytes) return false;
    const ByteView body = in.subspan(kHeaderBytes, wire.body_bytes);
    if (body_matches(wire, body)) {
      consume(head_bytes);
      rest_ = rest_of_line(head_bytes + wire.payload_bytes);
      frame_ = wire;
      if (wire.payload_bytes > 0) {
        begin_payload(link, sink, body);
      } else {
        sink.on_frame(link, wire.header(), body, Payload::kNone);
      }
      return true;
    }
    outcome.problem = "its body does not match its checksum";
  }
  outcome.cause = Cause::kBadFrame;
  return false;
}

void FrameReader::begin_payload(Link& link, FrameSink& sink, ByteView body) {
  body_.assign(body.begin(), body.end());
  phase_ = Phase::kPayload;
  large_ = frame_.payload_bytes >= kLargePayload;
  received_ = 0;
  crc_ = 0;
  landing_.reset();
  const Landing landing = sink.on_header(link, frame_.header(), body_);
  if (stopped_ || !landing.memory) return;
  R2CCL_ASSERT(landing.memory->region != nullptr && landing.memory->length >= frame_.payload_bytes,
               "the landing memory is shorter than the payload");
  landing_ = landing.memory;
}

bool FrameReader::take_staged_payload(Link& link, FrameSink& sink) {
  const std::size_t left = frame_.payload_bytes - received_;
  const ByteView bytes = staged().first(std::min(left, end_ - begin_));
  place(bytes);
  consume(bytes.size());
  if (bytes.size() < left) return false;
  finish_payload(link, sink);
  return true;
}

void FrameReader::place(ByteView bytes) {
  if (landing_ && !bytes.empty()) {
    if (std::byte* host = landing_->region->host(); host != nullptr) {
      std::memcpy(host + landing_->offset + received_, bytes.data(), bytes.size());
    } else {
      landing_->region->write(landing_->offset + received_, bytes);
    }
  }
  count_payload(bytes);
}

void FrameReader::count_payload(ByteView bytes) {
  received_ += bytes.size();
  if (landing_ && frame_.payload_checksummed()) crc_ = crc32c(crc_, bytes);
}

void FrameReader::finish_payload(Link& link, FrameSink& sink) {
  Payload payload = Payload::kPlaced;
  if (!landing_) {
    payload = Payload::kDiscarded;
  } else if (frame_.payload_checksummed() && crc_ != frame_.payload_crc) {
    payload = Payload::kCorrupt;
  }
  landing_.reset();
  phase_ = Phase::kHeader;
  sink.on_frame(link, frame_.header(), body_, payload);
}

}  // namespace r2ccl
