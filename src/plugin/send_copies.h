#pragma once
// Copies of what is sent on one connection. NCCL's own thread makes them, so that the send is over for NCCL at once;
// they are given back when the other end has the message.
//
// Bounds     kBytesMax and kCountMax under way; beyond that there is no copy, and NCCL waits.
// Threads    Any.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/bytes.h"
#include "session/streams/owned_region.h"

namespace r2ccl::plugin {

struct alignas(16) SendCopy {
  explicit SendCopy(std::size_t room) : memory(room) {}
  OwnedRegion memory;
  std::size_t length = 0;
  std::uint32_t tag = 0;
};

class SendCopies final {
 public:
  static constexpr std::size_t kLengthMax = std::size_t{128} << 10;  // longer ones are not copied
  static constexpr std::size_t kBytesMax = std::size_t{4} << 20;
  static constexpr std::size_t kCountMax = 512;  // of each size of room

  SendCopy* make(ByteView bytes, std::uint32_t tag);  // null: too long, or too many are under way
  void give_back(SendCopy& copy);

 private:
  // Two sizes, so that a few bytes do not take the room of the longest.
  struct Rooms {
    std::vector<std::unique_ptr<SendCopy>> all;
    std::vector<SendCopy*> free;
  };
  static constexpr std::array<std::size_t, 2> kRoom = {std::size_t{32} << 10, kLengthMax};
  static std::size_t size_class(std::size_t length) { return length <= kRoom[0] ? 0 : 1; }

  std::mutex mutex_;
  std::array<Rooms, kRoom.size()> rooms_;
  std::size_t bytes_ = 0;  // under way
};

}  // namespace r2ccl::plugin
