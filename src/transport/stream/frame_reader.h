#pragma once
// The receiving half of a StreamLink. It reads many small frames at a time into one staging buffer, and a large payload
// straight into the memory where it belongs: only the few bytes that came with its header are copied. A checksum is
// computed over bytes just read, while they are in the cache.
//
//   phase      bytes go to                                               next
//   kHeader    the staging buffer, until header, body and padding are    kPayload, or kHeader if there is none
//              there
//   kPayload   the landing memory: first what is staged, then the rest   kHeader when the payload is whole
//              straight from the stream; the next header may follow
//              into the staging buffer in the same read

#include <array>
#include <optional>

#include "transport/link.h"
#include "transport/stream/frame.h"
#include "transport/stream/stream.h"

namespace r2ccl {

class FrameReader final {
 public:
  struct Outcome {
    bool moved = false;
    Cause cause = Cause::kNone;     // kBadFrame, or why the stream is over
    const char* problem = nullptr;  // kBadFrame: what is wrong with the frame
  };

  // kReady: read only while the stream says that there may be something. kAll: until it would block, whatever it says.
  enum class Until : std::uint8_t { kReady, kAll };

  // Reads about `bytes_max` and delivers complete frames. May be called again from inside a sink's callback (a fence
  // noticed while handling a frame): the outer call then returns without touching anything once stop() was called.
  Outcome read(Stream& stream, Link& link, FrameSink& sink, std::size_t bytes_max, Until until);
  // Delivers nothing more and touches no landing memory from now on.
  void stop();
  void discard_rest() { landing_.reset(); }
  bool reading() const { return depth_ > 0; }

  // For the handshake: bytes before the first frame.
  Io fill(Stream& stream);
  ByteView staged() const { return ByteView(staging_).subspan(begin_, end_ - begin_); }
  void consume(std::size_t bytes) { begin_ += bytes; }

 private:
  enum class Phase : std::uint8_t { kHeader, kPayload };

  static constexpr std::size_t kStagingBytes = 20 * 1024;
  static constexpr std::size_t kCheckedReadBytes = 256 * 1024;  // per read: a checksum finds them in the cache
  static constexpr std::size_t kScratchBytes = 64 * 1024;       // for payload that is dropped or can not be addressed
  static constexpr std::size_t kLargePayload = 16 * 1024;       // from here on a short part is read for the next header
  static constexpr std::size_t kShortTail = 1024;
  static_assert(kStagingBytes >= kHeaderBytes + kBodyBytesMax + kFrameAlignment,
                "what comes before a payload is parsed in one piece");

  bool parse(Link& link, FrameSink& sink, Outcome& outcome);
  bool parse_head(Link& link, FrameSink& sink, Outcome& outcome);
  bool take_staged_payload(Link& link, FrameSink& sink);
  void begin_payload(Link& link, FrameSink& sink, ByteView body);
  void place(ByteView bytes);
  void count_payload(ByteView bytes);
  void finish_payload(Link& link, FrameSink& sink);
  Io fill_payload(Stream& stream);
  ReadPart payload_target();
  void make_room();
  void keep_callers_buffers();

  Phase phase_ = Phase::kHeader;
  bool stopped_ = false;
  int depth_ = 0;

  Bytes staging_;  // kStagingBytes once used; [begin_, end_) is unread
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t rest_ = 0;  // zeros of the frame before that are still to come

  WireHeader frame_{};  // belongs to the payload now arriving
  Bytes body_;
  bool large_ = false;  // the last payload was large, so another large one is likely
  std::optional<MemoryRef> landing_;
  std::size_t received_ = 0;
  std::uint32_t crc_ = 0;

  Bytes scratch_;
  Bytes kept_staging_;  // an outer callback may still look at these two while an inner read() goes on
  Bytes kept_body_;
};

}  // namespace r2ccl
