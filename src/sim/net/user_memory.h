#pragma once
// The application's buffers, watched for accesses that are not allowed. Memory that is not mapped sees every access;
// mapped memory is filled with a pattern when its operation is complete and compared later.

#include <string>
#include <vector>

#include "transport/link.h"

namespace r2ccl::sim {

class UserMemory final : public Region {
 public:
  UserMemory(std::size_t bytes, bool mapped);

  MemoryRef ref() { return {this, kGuardBytes, bytes_}; }
  std::span<std::byte> bytes() { return std::span(data_).subspan(kGuardBytes, bytes_); }

  void begin() { busy_ = true; }  // an operation uses it
  // The operation is complete: nobody may touch it any more. Fills it with a pattern that is compared by complaint().
  void end();
  // A sentence when the rules were broken; empty otherwise. `used` bytes at the front may differ from the fill before
  // end().
  std::string complaint() const;
  // Bytes outside the first `used` still have the value they were made with.
  bool untouched_after(std::size_t used) const;

  std::byte* host() override { return mapped_ ? data_.data() : nullptr; }
  std::size_t size() const override { return data_.size(); }
  void read(std::size_t offset, std::span<std::byte> out) override;
  void write(std::size_t offset, ByteView in) override;

 private:
  static constexpr std::size_t kGuardBytes = 16;
  static constexpr std::byte kFresh{0xee};
  static constexpr std::byte kOver{0x5a};

  Bytes data_;
  std::size_t bytes_;
  bool mapped_;
  bool busy_ = false;
  bool over_ = false;
  std::string complaint_;
};

}  // namespace r2ccl::sim
