#pragma once
// A provider for tests of transport/fault: its links remember what was done to them.

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/link.h"

namespace r2ccl {

// What a test sees of a link, also after the link is gone.
struct FakeWire {
  NicId nic;
  bool deaf = false;
  bool drained = false;
  bool closed = false;
  bool destroyed = false;
  int steps = 0;
  std::uint64_t queued_bytes = 0;  // posted and not stepped out
  std::uint64_t sent_bytes = 0;
  std::deque<std::uint32_t> arriving;  // payload sizes of frames, one given per step
};

class FakeLink final : public Link {
 public:
  static constexpr std::uint64_t kQueueMax = 1'000'000;

  FakeLink(std::shared_ptr<FakeWire> wire, LinkState state) : wire_(std::move(wire)), state_(state) {}
  ~FakeLink() override { wire_->destroyed = true; }

  LinkState state() const override { return state_; }
  Cause cause() const override { return state_ == LinkState::kDown ? Cause::kClosed : Cause::kNone; }
  const std::string& error() const override { return error_; }
  const Hello& hello() const override { return hello_; }
  ProcessId peer() const override { return {5}; }
  NicId nic() const override { return wire_->nic; }

  Result<Ticket> post(const OutFrame& frame) override {
    if (wire_->queued_bytes + frame.header.payload_bytes > kQueueMax) return fail(Fault::kBusy, "full");
    wire_->queued_bytes += frame.header.payload_bytes;
    return Ticket{1};
  }
  bool forget(Ticket) override { return false; }
  void discard_rest() override {}
  bool step(Instant, FrameSink& sink) override {
    ++wire_->steps;
    if (state_ == LinkState::kOpening) state_ = LinkState::kUp;
    if (!wire_->deaf) wire_->sent_bytes += std::exchange(wire_->queued_bytes, 0);
    return deliver_one(sink);
  }
  void drain_and_close(Instant, FrameSink& sink) override {
    while (deliver_one(sink)) {
    }
    wire_->drained = true;
    state_ = LinkState::kDown;
  }
  void close() override {
    wire_->closed = true;
    state_ = LinkState::kDown;
  }
  Progress progress(Instant) override {
    Progress progress;
    progress.acked_bytes = wire_->sent_bytes;
    progress.queued_bytes = wire_->queued_bytes;
    return progress;
  }
  bool deafen(bool on) override {
    wire_->deaf = on;
    return true;
  }

 private:
  bool deliver_one(FrameSink& sink) {
    if (wire_->arriving.empty()) return false;
    FrameHeader header;
    header.payload_bytes = wire_->arriving.front();
    wire_->arriving.pop_front();
    sink.on_header(*this, header, {});
    sink.on_frame(*this, header, {}, Payload::kDiscarded);
    return true;
  }

  std::shared_ptr<FakeWire> wire_;
  LinkState state_;
  Hello hello_;
  std::string error_;
};

class FakeProvider final : public Provider {
 public:
  explicit FakeProvider(std::size_t nics) {
    for (std::size_t i = 0; i < nics; ++i) {
      Nic nic;
      nic.id.value = static_cast<std::uint8_t>(i);
      nic.name = "nic" + std::to_string(i);
      nics_.push_back(nic);
    }
  }
  std::span<const Nic> nics() const override { return nics_; }
  Result<Address> listen(NicId, std::uint16_t) override { return Address::v4(127, 0, 0, 1, 1); }
  Result<std::unique_ptr<Link>> connect(NicId nic, const Address&, const Hello&, Instant) override {
    wires.push_back(std::make_shared<FakeWire>());
    wires.back()->nic = nic;
    return std::make_unique<FakeLink>(wires.back(), LinkState::kOpening);
  }
  std::unique_ptr<Link> accept() override {
    if (inbound.empty()) return nullptr;
    wires.push_back(std::make_shared<FakeWire>());
    wires.back()->nic = inbound.front();
    inbound.pop_front();
    return std::make_unique<FakeLink>(wires.back(), LinkState::kUp);
  }
  std::optional<NicEvent> next_event() override { return std::nullopt; }
  Turn step(Instant) override { return {}; }

  std::vector<std::shared_ptr<FakeWire>> wires;  // in the order they were made
  std::deque<NicId> inbound;

 private:
  std::vector<Nic> nics_;
};

// Counts frames, and checks in whose name they come.
class FakeSink final : public FrameSink {
 public:
  Landing on_header(Link&, const FrameHeader&, ByteView) override { return {}; }
  void on_frame(Link& link, const FrameHeader& header, ByteView, Payload) override {
    ++frames;
    bytes += header.payload_bytes;
    from = &link;
  }
  int frames = 0;
  std::uint64_t bytes = 0;
  Link* from = nullptr;
};

}  // namespace r2ccl
