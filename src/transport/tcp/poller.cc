#include "transport/tcp/poller.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace r2ccl {

Status Poller::open() {
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return fail(Fault::kBusy, describe("can not create an epoll descriptor", errno));
  wake_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_) return fail(Fault::kBusy, describe("can not create an event descriptor", errno));
  // Edge-triggered, so that it never has to be read: each wake() is an edge of its own.
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.u64 = kNoToken}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
    return fail(Fault::kBusy, describe("can not watch the event descriptor", errno));
  }
  return {};
}

int Poller::add(int fd, std::uint32_t events, ReadyHandler& handler, Token& token) {
  std::uint32_t index = static_cast<std::uint32_t>(slots_.size());
  if (free_slots_.empty()) {
    slots_.emplace_back();
  } else {
    index = free_slots_.back();
    free_slots_.pop_back();
  }
  const Token made = static_cast<Token>(slots_[index].generation) << 32 | index;
  epoll_event event{.events = events, .data = {.u64 = made}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const int error = errno;
    free_slots_.push_back(index);
    return error;
  }
  slots_[index].handler = &handler;
  token = made;
  return 0;
}

void Poller::remove(int fd, Token& token) {
  if (token == kNoToken) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  const auto index = static_cast<std::uint32_t>(token);
  Slot& slot = slots_[index];
  slot.handler = nullptr;
  if (++slot.generation == 0) slot.generation = 1;
  free_slots_.push_back(index);
  token = kNoToken;
}

bool Poller::dispatch() {
  std::array<epoll_event, kEventsPerStep> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerStep, 0);
  bool any = false;
  for (int i = 0; i < count; ++i) {
    const Token token = events[static_cast<std::size_t>(i)].data.u64;
    if (token == kNoToken) continue;  // wake()
    const Slot& slot = slots_[static_cast<std::uint32_t>(token)];
    if (slot.handler == nullptr || slot.generation != token >> 32) continue;
    slot.handler->on_ready(events[static_cast<std::size_t>(i)].events);
    any = true;
  }
  return any;
}

// Polls the epoll descriptor itself: nanosecond time-outs, and the events stay where dispatch() finds them.
void Poller::wait(Instant now, Instant until) {
  if (until <= now || unfinished_.load(std::memory_order_relaxed)) return;
  pollfd entry{.fd = epoll_.get(), .events = POLLIN, .revents = 0};
  if (until == kNever) {
    ::ppoll(&entry, 1, nullptr, nullptr);
    return;
  }
  const Duration left = until - now;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
  ::ppoll(&entry, 1, &timeout, nullptr);
}

void Poller::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

}  // namespace r2ccl
