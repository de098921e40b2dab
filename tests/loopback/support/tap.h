#pragma once
// A Dialer that records every byte that its connections send, as an eavesdropper on the network could.

#include <memory>
#include <utility>
#include <vector>

#include "transport/stream/stream.h"

namespace r2ccl::loopback {

struct Recording {
  static constexpr std::size_t kBytesMax = 1 << 20;  // the beginning is what matters
  Address to;
  Bytes bytes;
};

class TapStream final : public Stream {
 public:
  TapStream(std::unique_ptr<Stream> inner, std::shared_ptr<Recording> recording)
      : inner_(std::move(inner)), recording_(std::move(recording)) {}

  LinkState state() const override { return inner_->state(); }
  Cause cause() const override { return inner_->cause(); }
  const std::string& error() const override { return inner_->error(); }
  NicId nic() const override { return inner_->nic(); }
  Io write(std::span<const ByteView> parts) override {
    const Io done = inner_->write(parts);
    std::size_t left = std::min(done.bytes, Recording::kBytesMax - recording_->bytes.size());
    for (const ByteView& part : parts) {
      const ByteView sent = part.first(std::min(part.size(), left));
      recording_->bytes.insert(recording_->bytes.end(), sent.begin(), sent.end());
      left -= sent.size();
    }
    return done;
  }
  Io read(std::span<const ReadPart> parts) override { return inner_->read(parts); }
  bool readable() const override { return inner_->readable(); }
  bool writable() const override { return inner_->writable(); }
  void close(bool abortive) override { inner_->close(abortive); }
  Progress progress(Instant now) override { return inner_->progress(now); }
  bool deafen(bool on) override { return inner_->deafen(on); }

 private:
  std::unique_ptr<Stream> inner_;
  std::shared_ptr<Recording> recording_;
};

class TapDialer final : public Dialer {
 public:
  explicit TapDialer(Dialer& inner) : inner_(inner) {}

  std::span<const Nic> nics() const override { return inner_.nics(); }
  Result<Address> listen(NicId nic, std::uint16_t port) override { return inner_.listen(nic, port); }
  Result<std::unique_ptr<Stream>> connect(NicId nic, const Address& remote) override {
    auto stream = inner_.connect(nic, remote);
    if (!stream) return stream;
    recordings.push_back(std::make_shared<Recording>(Recording{remote, {}}));
    return std::make_unique<TapStream>(std::move(*stream), recordings.back());
  }
  std::unique_ptr<Stream> accept() override { return inner_.accept(); }
  std::optional<NicEvent> next_event() override { return inner_.next_event(); }
  bool step(Instant now) override { return inner_.step(now); }

  std::vector<std::shared_ptr<Recording>> recordings;  // one per connection, oldest first

 private:
  Dialer& inner_;
};

}  // namespace r2ccl::loopback
