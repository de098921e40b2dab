#include "transport/stream/stream_link.h"

#include <fmt/format.h>

#include <utility>

namespace r2ccl {
namespace {

std::string sentence(const Stream& stream, Cause cause, const char* when) {
  if (!stream.error().empty()) return stream.error();
  return fmt::format("{} {}", cause == Cause::kClosed ? "the other end closed the connection" : "the connection failed",
                     when);
}

}  // namespace

StreamLink::StreamLink(std::unique_ptr<Stream> stream, std::unique_ptr<Handshake> handshake, const StreamLimits& limits,
                       Instant deadline)
    : limits_(limits),
      stream_(std::move(stream)),
      handshake_(std::move(handshake)),
      open_deadline_(deadline),
      nic_(stream_->nic()),
      state_(LinkState::kOpening),
      hello_(handshake_->hello()),
      sender_(limits_) {}

StreamLink::StreamLink(std::unique_ptr<Stream> stream, const Hello& hello, ProcessId peer, const StreamLimits& limits)
    : limits_(limits),
      stream_(std::move(stream)),
      open_deadline_(kNever),
      nic_(stream_->nic()),
      state_(LinkState::kUp),
      hello_(hello),
      peer_(peer),
      sender_(limits_) {}

StreamLink::~StreamLink() {
  close_stream(true);
}

Result<Ticket> StreamLink::post(const OutFrame& frame) {
  if (state_ == LinkState::kDown) return fail(Fault::kPathDown, error_);
  return sender_.post(frame);
}

bool StreamLink::step(Instant now, FrameSink& sink) {
  // A fast way out, because a driver that spins calls step() on every link although few of them have work.
  if (state_ == LinkState::kUp && sender_.empty() && reader_.staged().empty() && !stream_->readable()) return false;
  bool moved = false;
  if (state_ == LinkState::kOpening) moved = step_opening(now);
  if (state_ != LinkState::kUp || reader_.reading()) return moved;

  // Reading first: what a sink posts in answer goes out with this step's write.
  const auto read = reader_.read(*stream_, *this, sink, limits_.read_bytes_per_step, FrameReader::Until::kReady);
  moved |= read.moved;
  if (state_ != LinkState::kUp) return true;
  if (read.cause != Cause::kNone) {
    go_down(read.cause, read.problem != nullptr
                            ? fmt::format("framing is lost: a frame was refused because {}", read.problem)
                            : sentence(*stream_, read.cause, "while frames were read"));
    return true;
  }
  const Io written = sender_.flush(*stream_, limits_.write_bytes_per_step);
  moved |= written.bytes > 0;
  if (written.cause != Cause::kNone) {
    go_down(written.cause, sentence(*stream_, written.cause, "while frames were written"));
    return true;
  }
  return moved;
}

bool StreamLink::step_opening(Instant now) {
  if (state_ != LinkState::kOpening) return false;
  if (stream_->state() == LinkState::kDown) {
    fail_opening(stream_->cause(), sentence(*stream_, stream_->cause(), "while it was opened"), true);
    return true;
  }
  const bool moved = stream_->state() == LinkState::kUp && talk();
  if (state_ == LinkState::kOpening && now >= open_deadline_) {
    fail_opening(Cause::kTimeout,
                 fmt::format("connecting and shaking hands took longer than {:.0f} ms", to_ms(limits_.open_timeout)),
                 true);
    return true;
  }
  return moved;
}

bool StreamLink::talk() {
  bool moved = false;
  Cause over = Cause::kNone;
  for (bool again = true; again && over == Cause::kNone && handshake_->state() == Handshake::State::kTalking;) {
    again = false;
    if (const ByteView out = handshake_->output(); !out.empty() && stream_->writable()) {
      const Io io = stream_->write({&out, 1});
      handshake_->sent(io.bytes);
      moved |= io.bytes > 0;
      over = io.cause;
    }
    if (over == Cause::kNone && stream_->readable()) {
      const Io io = reader_.fill(*stream_);
      reader_.consume(handshake_->take(reader_.staged()));
      moved |= io.bytes > 0;
      again = io.bytes > 0;
      over = io.cause;
    }
  }
  // Acceptance or refusal goes out last; a refusal is best effort.
  if (const ByteView out = handshake_->output(); !out.empty() && over == Cause::kNone && stream_->writable()) {
    const Io io = stream_->write({&out, 1});
    handshake_->sent(io.bytes);
    moved |= io.bytes > 0;
    over = io.cause;
  }
  if (handshake_->state() == Handshake::State::kFailed) {
    fail_opening(handshake_->cause(), handshake_->error(), false);
  } else if (over != Cause::kNone) {
    fail_opening(over, sentence(*stream_, over, "during the handshake"), true);
  } else if (handshake_->state() == Handshake::State::kProven && handshake_->output().empty()) {
    finish_opening();
  }
  return moved || state_ != LinkState::kOpening;
}

void StreamLink::finish_opening() {
  hello_ = handshake_->hello();
  peer_ = handshake_->peer();
  handshake_.reset();
  state_ = LinkState::kUp;
}

void StreamLink::fail_opening(Cause cause, std::string error, bool abortive) {
  handshake_.reset();
  go_down(cause, std::move(error));
  close_stream(abortive);
}

void StreamLink::drain_and_close(Instant, FrameSink& sink) {
  if (stream_closed_ || draining_) return;
  const bool frames_may_follow = state_ != LinkState::kOpening && cause_ != Cause::kBadFrame;
  go_down(Cause::kClosed, "closed by this end");
  draining_ = true;
  if (frames_may_follow) {
    reader_.read(*stream_, *this, sink, limits_.drain_bytes_max, FrameReader::Until::kAll);
  }
  close_stream(true);
}

void StreamLink::close() {
  if (stream_closed_ || draining_) return;
  if (state_ == LinkState::kUp) sender_.flush(*stream_, sender_.queued_bytes());
  const bool abortive = state_ != LinkState::kUp;
  go_down(Cause::kClosed, "closed by this end");
  close_stream(abortive);
}

Progress StreamLink::progress(Instant now) {
  if (stream_closed_) return {};
  Progress progress = stream_->progress(now);
  progress.queued_bytes += sender_.queued_bytes();
  return progress;
}

void StreamLink::go_down(Cause cause, std::string error) {
  if (state_ == LinkState::kDown) return;
  state_ = LinkState::kDown;
  cause_ = cause;
  error_ = std::move(error);
}

void StreamLink::close_stream(bool abortive) {
  if (stream_closed_) return;
  stream_closed_ = true;
  reader_.stop();
  sender_.clear();
  handshake_.reset();
  stream_->close(abortive);
}

}  // namespace r2ccl
