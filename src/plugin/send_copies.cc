#include "plugin/send_copies.h"

#include <cstring>

namespace r2ccl::plugin {

SendCopy* SendCopies::make(ByteView bytes, std::uint32_t tag) {
  if (bytes.size() > kLengthMax) return nullptr;
  const std::size_t size = size_class(bytes.size());
  SendCopy* copy = nullptr;
  {
    const std::lock_guard lock(mutex_);
    Rooms& rooms = rooms_[size];
    if (bytes_ + bytes.size() > kBytesMax) return nullptr;
    if (rooms.free.empty()) {
      if (rooms.all.size() >= kCountMax) return nullptr;
      rooms.free.push_back(rooms.all.emplace_back(std::make_unique<SendCopy>(kRoom[size])).get());
    }
    copy = rooms.free.back();
    rooms.free.pop_back();
    bytes_ += bytes.size();
  }
  copy->length = bytes.size();
  copy->tag = tag;
  if (!bytes.empty()) std::memcpy(copy->memory.host(), bytes.data(), bytes.size());
  return copy;
}

void SendCopies::give_back(SendCopy& copy) {
  const std::lock_guard lock(mutex_);
  bytes_ -= copy.length;
  rooms_[size_class(copy.length)].free.push_back(&copy);
}

}  // namespace r2ccl::plugin
