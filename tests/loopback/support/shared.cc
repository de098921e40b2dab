#include "tests/loopback/support/shared.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace r2ccl::loopback {

Instant clock_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return Instant(std::chrono::seconds(now.tv_sec) + Duration(now.tv_nsec));
}

void Gate::raise_to(std::uint32_t value) {
  value_.store(value, std::memory_order_release);
  ::syscall(SYS_futex, &value_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool Gate::wait_for(std::uint32_t value, Instant deadline) const {
  for (;;) {
    const std::uint32_t seen = value_.load(std::memory_order_acquire);
    if (seen >= value) return true;
    const Duration left = deadline - clock_now();
    if (left <= Duration::zero()) return false;
    const timespec timeout{.tv_sec = static_cast<time_t>(left / 1s), .tv_nsec = static_cast<long>((left % 1s).count())};
    ::syscall(SYS_futex, &value_, FUTEX_WAIT, seen, &timeout, nullptr, 0);
  }
}

void EventLog::add(const Event& event) {
  const std::uint64_t at = count.load(std::memory_order_relaxed);
  if (at >= kEventsMax) throw std::runtime_error("a loopback test records more events than it has room for");
  events[at] = event;
  count.store(at + 1, std::memory_order_release);
}

std::vector<Event> EventLog::copy(std::size_t from) const {
  const std::size_t end = size();
  if (from >= end) return {};
  return {events.begin() + static_cast<std::ptrdiff_t>(from), events.begin() + static_cast<std::ptrdiff_t>(end)};
}

std::size_t EventLog::count_of(EventKind kind, std::size_t from) const {
  const std::vector<Event> seen = copy(from);
  return static_cast<std::size_t>(
      std::count_if(seen.begin(), seen.end(), [&](const Event& event) { return event.kind == kind; }));
}

}  // namespace r2ccl::loopback
