#include "plugin/connection.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace r2ccl {
namespace {

constexpr std::array<std::size_t, 2> kRoom = {std::size_t{32} << 10, kCopyBytesMax};
constexpr std::size_t kCopiedBytesMax = std::size_t{4} << 20;  // under way
constexpr std::size_t kCopiesMax = 512;

std::size_t room_index(std::size_t length) {
  return length <= kRoom[0] ? 0 : 1;
}

}  // namespace

Connection::Connection(Endpoint& endpoint, Side side) : endpoint_(endpoint), side_(side) {
  // NCCL may have so many receives under way, each of several parts, and a send for every part.
  constexpr std::size_t kParts = std::size_t{nccl::kRequestsMax} * kGroupedMax;
  const std::size_t count = side == Side::kSend ? kParts : nccl::kRequestsMax;
  requests_ = std::make_unique<Request[]>(count);
  parts_ = std::make_unique<Request::Part[]>(kParts);
  for (std::size_t i = count; i-- > 0;) {
    requests_[i].connection = this;
    requests_[i].parts = &parts_[i * (kParts / count)];
    give_back(requests_[i]);
  }
}

Request* Connection::take() {
  Request* const request = free_;
  if (request != nullptr) free_ = request->next_free;
  return request;
}

void Connection::give_back(Request& request) {
  request.next_free = free_;
  free_ = &request;
}

SendCopy* Connection::copy_of(const Request::Part& part) {
  const std::size_t length = part.memory.size(), room = room_index(length);
  if (length > kCopyBytesMax) return nullptr;
  SendCopy* copy = nullptr;
  {
    const std::lock_guard lock(copies_mutex_);
    if (copied_bytes_ + length > kCopiedBytesMax) return nullptr;
    std::vector<SendCopy*>& free = free_copies_[room];
    if (free.empty()) {
      if (copies_.size() >= kCopiesMax) return nullptr;
      free.push_back(copies_.emplace_back(std::make_unique<SendCopy>(kRoom[room])).get());
    }
    copy = free.back();
    free.pop_back();
    copied_bytes_ += length;
  }
  copy->length = length;
  copy->tag = part.tag;
  if (length != 0) std::memcpy(copy->memory.host(), part.memory.data(), length);
  return copy;
}

void Connection::give_back(SendCopy& copy) {
  const std::lock_guard lock(copies_mutex_);
  copied_bytes_ -= copy.length;
  free_copies_[room_index(copy.length)].push_back(&copy);
}

void Connection::put_on_shelf(EarlyMessage message) {
  const std::lock_guard lock(shelf_mutex_);
  shelf_.push_back(std::move(message));
  shelved_.store(shelf_.size(), std::memory_order_release);
}

std::optional<EarlyMessage> Connection::take_from_shelf(StreamId stream, std::size_t longest) {
  if (shelved_.load(std::memory_order_acquire) == 0) return std::nullopt;
  const std::lock_guard lock(shelf_mutex_);
  const auto found =
      std::ranges::find_if(shelf_, [&](const EarlyMessage& message) { return message.key.stream == stream; });
  if (found == shelf_.end() || found->length > longest) return std::nullopt;
  std::optional<EarlyMessage> message(std::move(*found));
  shelf_.erase(found);
  shelved_.store(shelf_.size(), std::memory_order_release);
  return message;
}

}  // namespace r2ccl
