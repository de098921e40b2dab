#pragma once
// Where one lane of an execution stands: the step that runs next, and how far receives are posted ahead of it
// (executor/execution.h says when they may be). Execution changes it; this is only the record.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/id.h"
#include "executor/receipts.h"
#include "schedule/cursor.h"
#include "schedule/schedule.h"

namespace r2ccl {

// How many of a step's waits are over, in order.
struct WaitProgress {
  std::uint32_t over = 0;
  std::uint64_t known = 0;  // what Receipts::all_in() has found out for the next wait
};

// A receive given to the courier whose step has not ended.
struct Posted {
  std::uint64_t step = 0;  // counted from the lane's start, as LaneRun::executed is
  ElementRange range{};
  std::uint32_t transfer = 0;
};

// The memory of steps that posting has passed and the lane has not yet run: nothing may land there ahead of them.
// Neighbouring steps that touch the same memory, as in a sum over peers, are one entry.
class Touched final {
 public:
  struct Memory {
    const std::byte* source = nullptr;
    const std::byte* destination = nullptr;
    std::size_t bytes = 0;
    friend bool operator==(const Memory&, const Memory&) = default;
  };

  void clear() { begin_ = end_; }
  bool full() const { return end_ - begin_ == kMax; }
  void add(const Memory& memory, std::uint64_t step) {
    if (begin_ != end_ && at(end_ - 1).memory == memory) {
      at(end_ - 1).last_step = step;
    } else {
      at(end_++) = {memory, step};
    }
  }
  void forget_before(std::uint64_t step) {
    while (begin_ != end_ && at(begin_).last_step < step) ++begin_;
  }
  bool overlaps(const std::byte* memory, std::size_t bytes) const {
    for (std::uint32_t i = begin_; i != end_; ++i) {
      const Memory& m = entries_[i % kMax].memory;
      if (meet(m.source, m.bytes, memory, bytes) || meet(m.destination, m.bytes, memory, bytes)) return true;
    }
    return false;
  }

 private:
  static constexpr std::uint32_t kMax = 16;
  struct Entry {
    Memory memory;
    std::uint64_t last_step = 0;
  };
  Entry& at(std::uint32_t number) { return entries_[number % kMax]; }
  static bool meet(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) {
    return a != nullptr && a < b + b_bytes && b < a + a_bytes;
  }

  std::array<Entry, kMax> entries_{};
  std::uint32_t begin_ = 0;
  std::uint32_t end_ = 0;
};

struct LaneRun {
  LaneRun(const Lane& l, std::uint32_t n) : lane(&l), number(n), first(l), at(first) {}

  // Begins again, as if nothing had run.
  void start() {
    at = first;
    if (ahead) *ahead = first;
    executed = passed = waited_from = worked = 0;
    waits = ahead_waits = {};
    begun = awaits = stalled = queued = false;
    posted_begin = posted_count = 0;
    touched.clear();
  }

  const Lane* lane;
  std::uint32_t number;
  std::optional<NicId> nic{};  // the NIC of its rail at this server
  LaneCursor first;            // the first step
  LaneCursor at;               // the step that runs next
  std::uint64_t executed = 0;  // steps that ended

  // About the step at `at`:
  WaitProgress waits{};
  bool begun = false;  // it may run, and `range` is what it is about
  ElementRange range{};
  std::uint64_t worked = 0;  // elements copied or reduced so far
  std::uint32_t out = 0;     // the connection by which it sends

  // Receives are posted ahead of `at`.
  std::optional<LaneCursor> ahead{};  // set if the lane receives at all
  std::uint64_t passed = 0;           // steps that `ahead` has passed; never below `executed`
  WaitProgress ahead_waits{};
  // Once `executed` has come this far, every wait between it and `ahead` is over.
  std::uint64_t waited_from = 0;
  bool lands = false;  // a step's message goes straight to its destination, so `touched` is kept
  Touched touched{};
  std::uint32_t first_posted = 0;  // the ring of Posted: where, how large, and which part is in use
  std::uint32_t posted_size = 0;
  std::uint32_t posted_begin = 0;
  std::uint32_t posted_count = 0;

  std::uint32_t first_step = 0;       // where its steps begin in tables of all lanes' steps
  std::uint32_t first_dependent = 0;  // where the lanes that wait for this one begin in Execution's list
  bool queued = false;                // it will run, or runs
  bool awaits = false;                // a wait is not over
  bool stalled = false;               // the courier was busy
};

}  // namespace r2ccl
