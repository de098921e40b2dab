#include "transport/fault/fault_link.h"

#include <fmt/format.h>

#include <algorithm>

namespace r2ccl {

namespace {

constexpr std::uint64_t kFrameOverheadBytes = 64;       // header, checksums and a share of the packet headers
constexpr std::uint64_t kInFlightShownMax = 64 * 1024;  // a cut link shows so much of its queue as in flight

std::uint64_t wire_bytes(const FrameHeader& header, ByteView body) {
  return kFrameOverheadBytes + body.size() + header.payload_bytes;
}

class NullSink final : public FrameSink {
 public:
  Landing on_header(Link&, const FrameHeader&, ByteView) override { return {}; }
  void on_frame(Link&, const FrameHeader&, ByteView, Payload) override {}
};

}  // namespace

// Passes frames on in the name of the decorated link, and counts them.
class FaultLink::Relay final : public FrameSink {
 public:
  Relay(FaultLink& link, FrameSink& sink) : link_(link), sink_(sink) {}
  Landing on_header(Link&, const FrameHeader& header, ByteView body) override {
    return sink_.on_header(link_, header, body);
  }
  void on_frame(Link&, const FrameHeader& header, ByteView body, Payload payload) override {
    if (link_.nic_->rate_bytes_s > 0) link_.nic_->in.take(wire_bytes(header, body));
    sink_.on_frame(link_, header, body, payload);
  }

 private:
  FaultLink& link_;
  FrameSink& sink_;
};

FaultLink::FaultLink(std::shared_ptr<FaultNic> nic, std::unique_ptr<Link> inner, Instant now, const FaultLimits& limits)
    : nic_(std::move(nic)), number_(nic_->next_number++), inner_(std::move(inner)), limits_(limits), born_(now) {
  nic_->links.emplace(number_, this);
  if (nic_->cut) set_cut(true);
}

FaultLink::FaultLink(std::shared_ptr<FaultNic> nic, const Hello& hello, Instant now, const FaultLimits& limits)
    : nic_(std::move(nic)), number_(nic_->next_number++), limits_(limits), hello_(hello), born_(now) {
  nic_->links.emplace(number_, this);
  if (nic_->failing) fail_locally();
}

FaultLink::~FaultLink() {
  nic_->links.erase(number_);
}

LinkState FaultLink::state() const {
  if (fallen_ != Cause::kNone) return LinkState::kDown;
  return inner_ ? inner_->state() : LinkState::kOpening;
}

Cause FaultLink::cause() const {
  if (fallen_ != Cause::kNone || !inner_) return fallen_;
  return inner_->cause();
}

const std::string& FaultLink::error() const {
  if (fallen_ != Cause::kNone || !inner_) return error_;
  return inner_->error();
}

Result<Ticket> FaultLink::post(const OutFrame& frame) {
  if (fallen_ != Cause::kNone) return fail(Fault::kPathDown, error_);
  if (!inner_) return fail(Fault::kBusy, "the connection is not open yet");
  // Frames are posted even on a cut NIC. Nothing steps the inner link then, so its bounded queues fill.
  Result<Ticket> ticket = inner_->post(frame);
  if (ticket) posted_bytes_ += wire_bytes(frame.header, frame.body);
  return ticket;
}

void FaultLink::discard_rest() {
  if (inner_) inner_->discard_rest();
}

bool FaultLink::step(Instant now, FrameSink& sink) {
  if (fallen_ != Cause::kNone) return false;
  Relay relay(*this, sink);
  // What the kernel acknowledged before the cut is still read, because no real fault takes that back.
  if (nic_->cut && deaf_ && inner_->state() == LinkState::kUp) return inner_->step(now, relay);
  if (nic_->cut || !inner_) return step_cut(now);
  if (nic_->rate_bytes_s == 0) return inner_->step(now, relay);
  nic_->out.refill(now);
  nic_->in.refill(now);
  if (nic_->out.empty() || nic_->in.empty()) return false;
  const bool moved = inner_->step(now, relay);
  if (moved) charge_sent(now);
  return moved;
}

// Nobody answers, so a link that was opening gives up in time, whether it began before or after the cut.
bool FaultLink::step_cut(Instant now) {
  if (state() != LinkState::kOpening || now < born_ + limits_.open_timeout) return false;
  fall(Cause::kTimeout,
       fmt::format("connecting from NIC {} took longer than {:.0f} ms", nic_->name, to_ms(limits_.open_timeout)));
  return true;
}

// How many posted bytes have left the queue.
std::uint64_t FaultLink::left_bytes(Instant now) {
  const std::uint64_t queued = inner_->progress(now).queued_bytes;
  return posted_bytes_ > queued ? posted_bytes_ - queued : 0;
}

void FaultLink::charge_sent(Instant now) {
  const std::uint64_t left = left_bytes(now);
  if (left <= charged_bytes_) return;
  nic_->out.take(left - charged_bytes_);
  charged_bytes_ = left;
}

void FaultLink::begin_metering(Instant now) {
  if (inner_) charged_bytes_ = left_bytes(now);
}

void FaultLink::drain_and_close(Instant now, FrameSink& sink) {
  fall(Cause::kClosed, "closed by this end");
  if (!inner_) return;
  Relay relay(*this, sink);
  inner_->drain_and_close(now, relay);
}

void FaultLink::close() {
  const bool was_reset = fallen_ == Cause::kReset;
  fall(Cause::kClosed, "closed by this end");
  if (!inner_) return;
  if (!was_reset) {
    inner_->close();
    return;
  }
  NullSink nobody;
  inner_->drain_and_close(born_, nobody);
}

// On a cut NIC the inner figures may show nothing in flight, because nothing was let out. A real NIC would have sent
// something, so this shows a part of the queue as in flight.
Progress FaultLink::progress(Instant now) {
  if (!inner_) return {};
  Progress progress = inner_->progress(now);
  if (!nic_->cut) return progress;
  if (progress.unacked_bytes == 0) {
    progress.unacked_bytes = std::min(progress.queued_bytes, kInFlightShownMax);
    progress.queued_bytes -= progress.unacked_bytes;
  }
  // Frames that are forgotten meanwhile leave the queue here. A real NIC would not give them back, so the figure stays.
  unacked_while_cut_ = progress.unacked_bytes = std::max(progress.unacked_bytes, unacked_while_cut_);
  progress.last_ack_age = std::max(progress.last_ack_age, std::max(Duration{}, now - nic_->cut_since));
  return progress;
}

void FaultLink::set_cut(bool cut) {
  unacked_while_cut_ = 0;
  deaf_ = inner_ && inner_->deafen(cut) && cut;
}

void FaultLink::fail_locally() {
  fall(Cause::kLocal, fmt::format("NIC {} is down", nic_->name));
}

void FaultLink::reset() {
  fall(Cause::kReset, fmt::format("the connection on NIC {} was reset", nic_->name));
}

void FaultLink::fall(Cause cause, std::string error) {
  if (state() == LinkState::kDown) return;
  fallen_ = cause;
  error_ = std::move(error);
}

}  // namespace r2ccl
