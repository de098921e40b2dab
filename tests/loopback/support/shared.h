#pragma once
// What a test process and the processes it forks have in common: objects in shared memory, a gate to wait at, and a
// record of events.

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "base/time.h"
#include "telemetry/telemetry.h"

namespace r2ccl::loopback {

Instant clock_now();  // CLOCK_MONOTONIC, the same in every process

// A T that forked processes share. Pages that nobody touches cost nothing.
template <class T>
class Shared final {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  Shared() {
    void* memory =
        ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no shared memory for the test");
    object_ = new (memory) T;
  }
  ~Shared() { ::munmap(object_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }

 private:
  T* object_;
};

// A number that only grows, and that other processes wait for.
class Gate final {
 public:
  void raise_to(std::uint32_t value);
  // False: the deadline came first.
  bool wait_for(std::uint32_t value, Instant deadline) const;
  std::uint32_t value() const { return value_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint32_t> value_;
};

// Everything one end's telemetry said, oldest first. One writer; read from any process while it grows.
struct EventLog {
  static constexpr std::size_t kEventsMax = 4'000'000;
  std::atomic<std::uint64_t> count;
  std::array<Event, kEventsMax> events;

  void add(const Event& event);
  std::size_t size() const { return count.load(std::memory_order_acquire); }
  std::vector<Event> copy(std::size_t from = 0) const;
  std::size_t count_of(EventKind kind, std::size_t from = 0) const;
};

}  // namespace r2ccl::loopback
