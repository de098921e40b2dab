#include "transport/tcp/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

namespace r2ccl {

Status Poller::open() {
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return fail(Fault::kBusy, describe("can not create an epoll descriptor", errno));
  wake_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_) return fail(Fault::kBusy, describe("can not create an event descriptor", errno));
  // Level-triggered, and read by wait() alone: a dispatch() or poll() beside it can not take the wake-up away.
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kNoToken}};
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
  if (kept_any_.load(std::memory_order_acquire)) {
    const std::size_t count = take_kept(events);
    if (tell(std::span(events).first(count))) return true;  // the next call brings what else is ready
  }
  if (skip_.load(std::memory_order_relaxed)) {
    skip_.store(false, std::memory_order_relaxed);
    if (++skipped_ < kSkipsMost) return false;
  }
  skipped_ = 0;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerStep, 0);
  return count > 0 && tell(std::span(events).first(static_cast<std::size_t>(count)));
}

bool Poller::poll() {
  if (unfinished_.load(std::memory_order_relaxed) || skip_.load(std::memory_order_relaxed) ||
      kept_any_.load(std::memory_order_acquire))
    return true;
  std::array<epoll_event, kEventsPerWait> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerWait, 0);
  if (count <= 0) return false;
  return keep(std::span(events).first(static_cast<std::size_t>(count)));
}

bool Poller::tell(std::span<const epoll_event> events) {
  bool any = false;
  for (const epoll_event& event : events) {
    const Token token = event.data.u64;
    if (token == kNoToken) continue;  // wake()
    const Slot& slot = slots_[static_cast<std::uint32_t>(token)];
    if (slot.handler == nullptr || slot.generation != token >> 32) continue;
    slot.handler->on_ready(event.events);
    any = true;
  }
  return any;
}

// Sleeps in epoll_pwait2 and keeps the events it gets, instead of polling the epoll descriptor: that way the kernel
// wakes this thread on the core where the waker just ran.
void Poller::wait(Instant now, Instant until) {
  if (until <= now || unfinished_.load(std::memory_order_relaxed) || skip_.load(std::memory_order_relaxed) ||
      kept_any_.load(std::memory_order_acquire))
    return;
  std::array<epoll_event, kEventsPerWait> events;
  const int count = sleep(events, until == kNever ? std::nullopt : std::optional(until - now));
  if (count <= 0) return;
  const auto got = std::span(events).first(static_cast<std::size_t>(count));
  keep(got);
  if (std::ranges::find(got, kNoToken, [](const epoll_event& event) { return event.data.u64; }) == got.end()) return;
  std::uint64_t wakes = 0;
  [[maybe_unused]] const auto read = ::read(wake_.get(), &wakes, sizeof wakes);
}

// epoll_pwait2 counts in nanoseconds. We call it by its number, because its name needs a C library as new as the call
// itself. Kernels before 5.11 do not have it and some sandboxes forbid it: there we count milliseconds, rounded up so
// that nobody wakes too early and spins.
int Poller::sleep(std::span<epoll_event> events, std::optional<Duration> longest) {
  const int most = static_cast<int>(events.size());
  if (!only_milliseconds_.load(std::memory_order_relaxed)) {
    const Duration left = longest.value_or(Duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec timeout{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
    const long count =
        ::syscall(SYS_epoll_pwait2, epoll_.get(), events.data(), most, longest ? &timeout : nullptr, nullptr, 0);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(count);
    only_milliseconds_.store(true, std::memory_order_relaxed);
  }
  if (!longest) return ::epoll_wait(epoll_.get(), events.data(), most, -1);
  constexpr std::chrono::milliseconds kLongest{std::numeric_limits<int>::max()};
  const auto rounded = std::min(std::chrono::ceil<std::chrono::milliseconds>(*longest), kLongest);
  return ::epoll_wait(epoll_.get(), events.data(), most, static_cast<int>(rounded.count()));
}

bool Poller::keep(std::span<const epoll_event> events) {
  const std::lock_guard guard(kept_mutex_);
  for (const epoll_event& event : events) {
    if (event.data.u64 != kNoToken) kept_.push_back(event);
  }
  kept_any_.store(!kept_.empty(), std::memory_order_release);
  return !kept_.empty();
}

std::size_t Poller::take_kept(std::span<epoll_event> out) {
  const std::lock_guard guard(kept_mutex_);
  const std::size_t count = std::min(out.size(), kept_.size());
  std::copy_n(kept_.begin(), count, out.begin());
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(count));
  kept_any_.store(!kept_.empty(), std::memory_order_release);
  return count;
}

void Poller::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

}  // namespace r2ccl
