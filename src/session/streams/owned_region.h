#pragma once
// Host memory that belongs to the session: it holds copies of small messages on their way out, and messages that came
// before their receive.

#include <cstring>
#include <memory>

#include "base/bytes.h"
#include "transport/link.h"

namespace r2ccl {

class OwnedRegion final : public Region {
 public:
  explicit OwnedRegion(std::size_t size) : bytes_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {}
  std::byte* host() override { return bytes_.get(); }
  std::size_t size() const override { return size_; }
  void read(std::size_t offset, std::span<std::byte> out) override {
    if (!out.empty()) std::memcpy(out.data(), bytes_.get() + offset, out.size());
  }
  void write(std::size_t offset, ByteView in) override {
    if (!in.empty()) std::memcpy(bytes_.get() + offset, in.data(), in.size());
  }
  std::span<std::byte> bytes() { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;  // not initialized: whoever takes it writes first
  std::size_t size_;
};

}  // namespace r2ccl
