#include "control/local_link.h"

#include <deque>

namespace r2ccl {
namespace {

constexpr int kFramesPerStep = 64;

struct Queue {
  struct Frame {
    FrameHeader header;
    Bytes body;
  };
  std::deque<Frame> frames;
  std::size_t bytes = 0;
  bool closed = false;  // the writing end closed it
};

struct LocalPipe {
  Queue towards[2];  // [0] towards the connecting end
};

class LocalLink final : public Link {
 public:
  LocalLink(std::shared_ptr<LocalPipe> pipe, int side, const Hello& hello, ProcessId peer)
      : pipe_(std::move(pipe)), side_(side), hello_(hello), peer_(peer) {}
  ~LocalLink() override { out().closed = true; }

  LinkState state() const override { return state_; }
  Cause cause() const override { return cause_; }
  const std::string& error() const override { return error_; }
  const Hello& hello() const override { return hello_; }
  ProcessId peer() const override { return peer_; }
  NicId nic() const override { return {}; }

  Result<Ticket> post(const OutFrame& frame) override {
    if (state_ == LinkState::kDown) return fail(Fault::kPathDown, "The local link is closed.");
    if (frame.header.payload_bytes != 0) return fail(Fault::kMisuse, "A local link carries no payload.");
    if (out().bytes + frame.body.size() > kLocalQueueBytes)
      return fail(Fault::kBusy, "The local link's queue is full.");
    out().bytes += frame.body.size();
    out().frames.push_back({frame.header, Bytes(frame.body.begin(), frame.body.end())});
    return Ticket{0};
  }
  bool forget(Ticket) override { return false; }
  void discard_rest() override {}

  bool step(Instant, FrameSink& sink) override {
    if (state_ == LinkState::kDown) return false;
    const bool delivered = deliver(sink, kFramesPerStep);
    if (in().frames.empty() && in().closed && state_ != LinkState::kDown)
      go_down("The other end of the local link closed it.");
    // Frames that wait for the other end count as movement, because nothing else would make its owner look.
    return delivered || !out().frames.empty() || state_ == LinkState::kDown;
  }
  void drain_and_close(Instant, FrameSink& sink) override {
    deliver(sink, static_cast<int>(in().frames.size()));
    close();
  }
  void close() override { go_down("The local link was closed here."); }
  Progress progress(Instant) override { return {}; }
  bool deafen(bool) override { return false; }

 private:
  Queue& in() { return pipe_->towards[side_]; }
  Queue& out() { return pipe_->towards[1 - side_]; }

  bool deliver(FrameSink& sink, int most) {
    int count = 0;
    for (; count < most && !in().frames.empty() && state_ != LinkState::kDown; ++count) {
      const Queue::Frame frame = std::move(in().frames.front());
      in().frames.pop_front();
      in().bytes -= frame.body.size();
      sink.on_frame(*this, frame.header, frame.body, Payload::kNone);
    }
    return count > 0;
  }
  void go_down(const char* why) {
    if (state_ == LinkState::kDown) return;
    state_ = LinkState::kDown;
    cause_ = Cause::kClosed;
    error_ = why;
    out().closed = true;
  }

  std::shared_ptr<LocalPipe> pipe_;
  int side_;
  Hello hello_;
  ProcessId peer_;
  LinkState state_ = LinkState::kUp;
  Cause cause_ = Cause::kNone;
  std::string error_;
};

}  // namespace

std::pair<std::unique_ptr<Link>, std::unique_ptr<Link>> make_local_links(const Hello& hello, ProcessId accepting) {
  auto pipe = std::make_shared<LocalPipe>();
  return {std::make_unique<LocalLink>(pipe, 0, hello, accepting),
          std::make_unique<LocalLink>(pipe, 1, hello, hello.from)};
}

}  // namespace r2ccl
