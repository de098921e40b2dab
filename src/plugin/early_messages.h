#pragma once
// Whole messages of one connection that came before their receives, in the order of each stream. NCCL's own thread
// takes them when it asks for a receive, so nobody waits for the thread that reads from the network.
//
// Order      A receive that NCCL has asked for and that has not reached the session yet is on its way. Such receives
//            come first in their streams, so as long as there are any, NCCL's thread takes nothing itself.
// Threads    NCCL's thread: take_now(), send_on(). Whoever holds the engine: the rest.

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "session/streams/inbox.h"

namespace r2ccl::plugin {

class EarlyMessages final {
 public:
  // The next message of the stream, for a receive that has room for `room` bytes. Where there is none the caller hands
  // the receive to the session and calls send_on().
  std::optional<EarlyMessage> take_now(StreamId stream, std::size_t room);
  void send_on() { on_their_way_.fetch_add(1, std::memory_order_relaxed); }

  void put(EarlyMessage message);
  std::optional<EarlyMessage> take(StreamId stream);  // for a receive that was on its way
  void arrived() { on_their_way_.fetch_sub(1, std::memory_order_release); }
  std::deque<EarlyMessage> take_all();

 private:
  std::optional<EarlyMessage> take_up_to(StreamId stream, std::size_t room);

  std::atomic<std::uint64_t> on_their_way_ = 0;
  std::atomic<std::size_t> size_ = 0;  // = messages_.size(); seldom more than none
  std::mutex mutex_;
  std::deque<EarlyMessage> messages_;
};

}  // namespace r2ccl::plugin
