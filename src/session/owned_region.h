#pragma once
// Host memory that belongs to the session: copies of small messages on their way out, small messages that came before their receive.

#include <cstring>

#include "base/bytes.h"
#include "transport/link.h"

namespace r2ccl {

class OwnedRegion final : public Region {
 public:
  explicit OwnedRegion(std::size_t size) : bytes_(size) {}
  std::byte* host() override { return bytes_.data(); }
  std::size_t size() const override { return bytes_.size(); }
  void read(std::size_t offset, std::span<std::byte> out) override {
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  void write(std::size_t offset, ByteView in) override {
    if (!in.empty()) std::memcpy(bytes_.data() + offset, in.data(), in.size());
  }
  std::span<std::byte> bytes() { return bytes_; }

 private:
  Bytes bytes_;
};

}  // namespace r2ccl
