#include "plugin/early_messages.h"

#include <algorithm>
#include <utility>

namespace r2ccl::plugin {

std::optional<EarlyMessage> EarlyMessages::take_now(StreamId stream, std::size_t room) {
  if (on_their_way_.load(std::memory_order_acquire) != 0) return std::nullopt;
  return take_up_to(stream, room);
}

std::optional<EarlyMessage> EarlyMessages::take(StreamId stream) {
  return take_up_to(stream, SIZE_MAX);
}

std::optional<EarlyMessage> EarlyMessages::take_up_to(StreamId stream, std::size_t room) {
  if (size_.load(std::memory_order_acquire) == 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(messages_, [&](const EarlyMessage& message) { return message.key.stream == stream; });
  if (found == messages_.end() || found->length > room) return std::nullopt;
  std::optional<EarlyMessage> message(std::move(*found));
  messages_.erase(found);
  size_.store(messages_.size(), std::memory_order_release);
  return message;
}

void EarlyMessages::put(EarlyMessage message) {
  const std::lock_guard lock(mutex_);
  messages_.push_back(std::move(message));
  size_.store(messages_.size(), std::memory_order_release);
}

std::deque<EarlyMessage> EarlyMessages::take_all() {
  const std::lock_guard lock(mutex_);
  size_.store(0, std::memory_order_release);
  return std::exchange(messages_, {});
}

}  // namespace r2ccl::plugin
