#pragma once
// One epoll: it tells sockets that they are ready, and sleeps until one is.
//
// Readiness is edge-triggered: a handler is told once and remembers it until the kernel says EAGAIN. A removed handler
// is never told again, even if an event for it was already fetched.
//
// Threads    wake() from any thread; wait() and poll() may run beside dispatch(), and keep what they fetched for
//            the next one; the rest from the driver.

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "transport/tcp/socket.h"

namespace r2ccl {

class ReadyHandler {
 public:
  virtual ~ReadyHandler() = default;
  virtual void on_ready(std::uint32_t events) = 0;  // EPOLL… bits; must not add or remove handlers
};

class Poller final {
 public:
  using Token = std::uint64_t;
  static constexpr Token kNoToken = 0;
  static constexpr int kEventsPerStep = 256;
  static constexpr int kEventsPerWait = 64;
  static constexpr int kSkipsMost = 16;

  Status open();

  // 0 or an errno. The handler is borrowed until remove().
  int add(int fd, std::uint32_t events, ReadyHandler& handler, Token& token);
  void remove(int fd, Token& token);  // sets the token to kNoToken; nothing to do when it is

  // Tells handlers what became ready, at most kEventsPerStep of them. True if any.
  bool dispatch();
  // Spares the next dispatch() its question to the kernel, because a handler is going to try a read anyway. One
  // dispatch() in kSkipsMost asks all the same, so that the other handlers are not forgotten.
  void skip_once() { skip_ = true; }

  // True: something is ready; it is kept for the next dispatch().
  bool poll();
  // Sleeps until something is ready, until `until`, or until wake(). What woke it is kept for the next dispatch().
  // Does not sleep while set_unfinished(true) says that a step left work undone on purpose.
  void wait(Instant now, Instant until);
  void wake();
  void set_unfinished(bool unfinished) { unfinished_.store(unfinished, std::memory_order_relaxed); }

 private:
  int sleep(std::span<epoll_event> events, std::optional<Duration> longest);  // how many events; below 0: an error
  bool tell(std::span<const epoll_event> events);
  bool keep(std::span<const epoll_event> events);  // true: there is something
  std::size_t take_kept(std::span<epoll_event> out);

  // Tokens are (generation, slot): an event fetched for a slot that was given away since is recognised and dropped.
  struct Slot {
    ReadyHandler* handler = nullptr;
    std::uint32_t generation = 1;
  };
  Fd epoll_;
  Fd wake_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::atomic<bool> only_milliseconds_ = false;  // this kernel counts time-outs of epoll in nothing finer
  std::atomic<bool> unfinished_ = false;
  std::atomic<bool> skip_ = false;
  int skipped_ = 0;  // questions spared in a row
  std::mutex kept_mutex_;
  // What wait() and poll() fetched, at most kEventsPerWait each time; it is taken before they fetch more.
  std::vector<epoll_event> kept_;
  std::atomic<bool> kept_any_ = false;
};

}  // namespace r2ccl
