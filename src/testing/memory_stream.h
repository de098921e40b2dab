#pragma once
// Both ends of a byte stream in memory, for tests and fuzzers: bytes arrive at once, in portions the test chooses, and
// the test may look at and change what is under way.

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "transport/stream/stream.h"

namespace r2ccl {

// One direction.
struct MemoryPipe {
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  std::deque<std::byte> bytes;             // written and not read yet
  std::size_t capacity = kNoLimit;         // writes beyond this would block
  std::size_t write_bytes_max = kNoLimit;  // per write
  std::size_t read_bytes_max = kNoLimit;   // per read
  bool ended = false;                      // the writer closed in order
  bool reset = false;                      // either end closed abortively
  std::size_t writes = 0;                  // calls
  std::size_t reads = 0;
};

class MemoryStream final : public Stream {
 public:
  MemoryStream(std::shared_ptr<MemoryPipe> in, std::shared_ptr<MemoryPipe> out, NicId nic)
      : in_(std::move(in)), out_(std::move(out)), nic_(nic) {}
  ~MemoryStream() override { close(true); }
  MemoryStream(const MemoryStream&) = delete;
  MemoryStream& operator=(const MemoryStream&) = delete;

  LinkState state() const override { return state_; }
  Cause cause() const override { return cause_; }
  const std::string& error() const override { return error_; }
  NicId nic() const override { return nic_; }

  Io write(std::span<const ByteView> parts) override {
    ++out_->writes;
    if (state_ == LinkState::kDown) return {.cause = cause_};
    if (out_->reset) return fall(Cause::kReset, "the other end reset the connection");
    const std::size_t room = out_->capacity - std::min(out_->capacity, out_->bytes.size());
    std::size_t left = std::min(room, out_->write_bytes_max);
    Io io;
    std::size_t asked = 0;
    for (const ByteView& part : parts) {
      const std::size_t count = std::min(left, part.size());
      out_->bytes.insert(out_->bytes.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count));
      io.bytes += count;
      left -= count;
      asked += part.size();
    }
    io.would_block = io.bytes < asked;
    return io;
  }

  // What arrived before an end or a reset can still be read, as TCP has it.
  Io read(std::span<const ReadPart> parts) override {
    ++in_->reads;
    Io io;
    std::size_t asked = 0;
    for (const ReadPart& part : parts) {
      const std::size_t count = std::min({part.size, in_->bytes.size(), in_->read_bytes_max - io.bytes});
      std::copy_n(in_->bytes.begin(), count, part.data);
      in_->bytes.erase(in_->bytes.begin(), in_->bytes.begin() + static_cast<std::ptrdiff_t>(count));
      io.bytes += count;
      asked += part.size;
    }
    io.would_block = io.bytes < asked;
    if (io.bytes > 0) return io;
    if (in_->reset) return fall(Cause::kReset, "the other end reset the connection");
    if (in_->ended) return fall(Cause::kClosed, "the other end closed the connection");
    return io;
  }

  bool readable() const override { return !closed_ && (!in_->bytes.empty() || in_->ended || in_->reset); }
  bool writable() const override { return !closed_ && (out_->bytes.size() < out_->capacity || out_->reset); }

  void close(bool abortive) override {
    if (closed_) return;
    closed_ = true;
    (abortive ? out_->reset : out_->ended) = true;
    in_->reset = true;
    fall(Cause::kClosed, "closed by this end");
  }
  Progress progress(Instant) override { return {.queued_bytes = out_->bytes.size()}; }
  bool deafen(bool) override { return false; }

 private:
  Io fall(Cause cause, const char* error) {
    if (state_ != LinkState::kDown) {
      state_ = LinkState::kDown;
      cause_ = cause;
      error_ = error;
    }
    return {.cause = cause};
  }

  std::shared_ptr<MemoryPipe> in_;
  std::shared_ptr<MemoryPipe> out_;
  const NicId nic_;
  LinkState state_ = LinkState::kUp;
  Cause cause_ = Cause::kNone;
  std::string error_;
  bool closed_ = false;
};

// The two ends, and the two directions between them.
struct MemoryPair {
  std::shared_ptr<MemoryPipe> a_to_b = std::make_shared<MemoryPipe>();
  std::shared_ptr<MemoryPipe> b_to_a = std::make_shared<MemoryPipe>();
  std::unique_ptr<MemoryStream> a = std::make_unique<MemoryStream>(b_to_a, a_to_b, NicId{0});
  std::unique_ptr<MemoryStream> b = std::make_unique<MemoryStream>(a_to_b, b_to_a, NicId{0});
};

}  // namespace r2ccl
