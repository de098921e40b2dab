#pragma once
// Two providers joined in memory, for session tests: frames, not bytes, cross when both ends are stepped. Time is a
// number the test moves. A path can be cut, made silent, or told to corrupt the next payload.

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "transport/link.h"

namespace r2ccl::testing {

class TestNet;

class TestLink final : public Link {
 public:
  struct Frame {
    FrameHeader header;
    Bytes body;
    MemoryRef payload;
    Ticket ticket = 0;
    Bytes bytes;  // payload once it left the sender
  };
  TestLink(TestNet& net, NicId nic, const Hello& hello, ProcessId peer)
      : net_(net), nic_(nic), hello_(hello), peer_(peer) {}
  ~TestLink() override;

  LinkState state() const override { return state_; }
  Cause cause() const override { return cause_; }
  const std::string& error() const override { return error_; }
  const Hello& hello() const override { return hello_; }
  ProcessId peer() const override { return peer_; }
  NicId nic() const override { return nic_; }

  Result<Ticket> post(const OutFrame& frame) override;
  bool forget(Ticket ticket) override;
  void discard_rest() override {}
  bool step(Instant now, FrameSink& sink) override;
  void drain_and_close(Instant now, FrameSink& sink) override;
  void close() override;
  Progress progress(Instant now) override;
  bool deafen(bool) override { return false; }

  void go_down(Cause cause) {
    state_ = LinkState::kDown;
    cause_ = cause;
    outgoing_.clear();
  }

  TestLink* other = nullptr;

 private:
  friend class TestNet;
  void deliver(FrameSink& sink);

  TestNet& net_;
  NicId nic_;
  Hello hello_;
  ProcessId peer_;
  LinkState state_ = LinkState::kUp;
  Cause cause_ = Cause::kNone;
  std::string error_;
  std::deque<Frame> outgoing_;
  std::deque<Frame> incoming_;
  Ticket next_ticket_ = 1;
  std::uint64_t sent_bytes_ = 0, acked_bytes_ = 0;
  Instant last_ack_{};
};

class TestProvider final : public Provider {
 public:
  TestProvider(TestNet& net, int side, int nics) : net_(net), side_(side) {
    for (int i = 0; i < nics; ++i)
      nics_.push_back({.id = {static_cast<std::uint8_t>(i)}, .name = "eth" + std::to_string(i), .address = {}});
  }
  std::span<const Nic> nics() const override { return nics_; }
  Result<Address> listen(NicId, std::uint16_t) override { return Address{}; }
  Result<std::unique_ptr<Link>> connect(NicId nic, const Address& remote, const Hello& hello, Instant now) override;
  std::unique_ptr<Link> accept() override {
    if (accepted.empty()) return nullptr;
    auto link = std::move(accepted.front());
    accepted.pop_front();
    return link;
  }
  std::optional<NicEvent> next_event() override { return std::nullopt; }
  Turn step(Instant) override { return {}; }

  std::deque<std::unique_ptr<Link>> accepted;

 private:
  TestNet& net_;
  int side_;
  std::vector<Nic> nics_;
};

class TestNet {
 public:
  explicit TestNet(int nics) : providers{TestProvider(*this, 0, nics), TestProvider(*this, 1, nics)} {}
  TestNet(const TestNet&) = delete;

  // Both ends see a reset; what had not crossed is lost.
  void cut(PathId path) {
    for (auto& [link, id] : links)
      if (id == path && link->state() == LinkState::kUp) link->go_down(Cause::kReset);
  }
  // Makes a frame arrive that nobody sent.
  static void inject(TestLink& link, const FrameHeader& header, ByteView body, ByteView payload) {
    link.incoming_.push_back({header, {body.begin(), body.end()}, {}, 0, {payload.begin(), payload.end()}});
  }
  bool is_silent(PathId path) const { return silent.contains(path); }

  std::map<TestLink*, PathId> links;
  TestProvider providers[2];
  std::set<PathId> silent;                                // frames and acknowledgements vanish into the queue
  std::set<PathId> unreachable;                           // connecting takes too long
  std::set<PathId> deserted;                              // nobody listens
  int corrupt_next = 0;                                   // payloads to report as corrupt
  std::function<void(PathId, const FrameHeader&)> watch;  // is shown what is sent
  std::size_t frames_per_step = 1000;
};

inline TestLink::~TestLink() {
  if (other != nullptr) other->other = nullptr;
  net_.links.erase(this);
}

inline Result<std::unique_ptr<Link>> TestProvider::connect(NicId nic, const Address&, const Hello& hello, Instant) {
  auto here = std::make_unique<TestLink>(net_, nic, hello, hello.to);
  if (net_.unreachable.contains(hello.path) || net_.silent.contains(hello.path)) {
    here->go_down(Cause::kTimeout);
    return here;
  }
  if (net_.deserted.contains(hello.path)) {
    here->go_down(Cause::kRefused);
    return here;
  }
  auto there = std::make_unique<TestLink>(net_, hello.path.high, hello, hello.from);
  here->other = there.get();
  there->other = here.get();
  net_.links[here.get()] = hello.path;
  net_.links[there.get()] = hello.path;
  net_.providers[1 - side_].accepted.push_back(std::move(there));
  return here;
}

inline Result<Ticket> TestLink::post(const OutFrame& frame) {
  if (state_ == LinkState::kDown) return fail(Fault::kPathDown, "down");
  const Ticket ticket = frame.header.payload_bytes != 0 ? next_ticket_++ : 0;
  outgoing_.push_back({frame.header, {frame.body.begin(), frame.body.end()}, frame.payload, ticket, {}});
  return ticket;
}

inline bool TestLink::forget(Ticket ticket) {
  return std::erase_if(outgoing_, [&](const Frame& frame) { return frame.ticket == ticket; }) == 0;
}

inline bool TestLink::step(Instant now, FrameSink& sink) {
  if (state_ != LinkState::kUp) return false;
  bool moved = false;
  const bool silent = net_.is_silent(hello_.path);
  for (std::size_t i = 0; i < net_.frames_per_step && !outgoing_.empty(); ++i, moved = true) {
    Frame frame = std::move(outgoing_.front());
    outgoing_.pop_front();
    if (net_.watch) net_.watch(hello_.path, frame.header);
    frame.bytes.resize(frame.header.payload_bytes);
    if (!frame.bytes.empty()) frame.payload.region->read(frame.payload.offset, frame.bytes);
    sent_bytes_ += 24 + frame.body.size() + frame.bytes.size();
    if (silent) continue;
    acked_bytes_ = sent_bytes_;
    last_ack_ = now;
    if (other != nullptr) other->incoming_.push_back(std::move(frame));
  }
  if (!silent)
    for (std::size_t i = 0; i < net_.frames_per_step && !incoming_.empty(); ++i, moved = true) deliver(sink);
  return moved;
}

inline void TestLink::deliver(FrameSink& sink) {
  Frame frame = std::move(incoming_.front());
  incoming_.pop_front();
  if (frame.bytes.empty()) return sink.on_frame(*this, frame.header, frame.body, Payload::kNone);
  const Landing landing = sink.on_header(*this, frame.header, frame.body);
  if (!landing.memory) return sink.on_frame(*this, frame.header, frame.body, Payload::kDiscarded);
  if (net_.corrupt_next > 0) {
    --net_.corrupt_next;
    return sink.on_frame(*this, frame.header, frame.body, Payload::kCorrupt);
  }
  landing.memory->region->write(landing.memory->offset, frame.bytes);
  sink.on_frame(*this, frame.header, frame.body, Payload::kPlaced);
}

inline void TestLink::drain_and_close(Instant, FrameSink& sink) {
  while (!incoming_.empty() && !net_.is_silent(hello_.path)) deliver(sink);
  close();
}

inline void TestLink::close() {
  go_down(Cause::kClosed);
  if (other != nullptr && other->state_ == LinkState::kUp && !net_.is_silent(hello_.path))
    other->go_down(Cause::kClosed);
}

inline Progress TestLink::progress(Instant now) {
  return {.acked_bytes = acked_bytes_,
          .unacked_bytes = sent_bytes_ - acked_bytes_,
          .queued_bytes = 0,
          .last_ack_age = now - last_ack_,
          .srtt = 100us,
          .min_rtt = 50us};
}

// Memory the processor can not address: only read() and write() work.
class ReadWriteRegion final : public Region {
 public:
  explicit ReadWriteRegion(std::size_t size) : bytes_(size) {}
  std::byte* host() override { return nullptr; }
  std::size_t size() const override { return bytes_.size(); }
  void read(std::size_t offset, std::span<std::byte> out) override {
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  }
  void write(std::size_t offset, ByteView in) override {
    std::copy(in.begin(), in.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  Bytes& bytes() { return bytes_; }

 private:
  Bytes bytes_;
};

}  // namespace r2ccl::testing
