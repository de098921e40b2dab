#pragma once
// One collective call of one rank, from the buffers that the user gave to the result:
//   kBefore  premulsum, and avg of floats: the input times a factor. AlltoAll in place: the input set aside.
//   kRun     the schedule (executor/), or rounds on the board where all ranks share one (board_run.h)
//   kAfter   avg of integers: the output divided
//   kOver
// With one rank, or nothing to do, kRun is a copy.
//
// Ownership  Courier, device, pool and cache are borrowed; the plan is shared.
// Threads    The communicator's.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "comm/call.h"
#include "comm/server/board_run.h"
#include "executor/execution.h"
#include "planner/plan.h"

namespace r2ccl {

// A plan as one rank runs it; made once for equal calls.
struct RankPlan {
  PlanHeader header;
  std::vector<Lane> lanes;
  std::uint64_t moved_bytes = 0;  // that the rank sends and receives
  double predicted_s = 0;         // by the cost model
  bool keeps_rails = false;       // lanes stay on theirs, even where another NIC would be done first
};

// Keeps executions that are over for the next equal call: making one costs as much as all the rest of a small
// collective.
class ExecutionCache final {
 public:
  static constexpr std::size_t kKept = 4;
  static constexpr std::uint64_t kBytesMax = 256 << 10;  // of the vector; beside more it does not count

  struct Kept {
    std::shared_ptr<const RankPlan> plan;
    DataType type;
    ReduceKind kind;
    std::uint64_t count;
    std::unique_ptr<Execution> execution;
  };
  // None: there is no such one.
  std::unique_ptr<Execution> take(const RankPlan& plan, DataType type, ReduceKind kind, std::uint64_t count);
  void put(Kept kept);

 private:
  std::vector<Kept> kept_;  // oldest first
};

Collective collective_of(CallKind kind);  // not of send and recv
// Bytes of the whole vector of the collective (schedule/layout.h).
std::uint64_t vector_bytes(const Call& call, std::uint32_t size);

// RankPlan::moved_bytes, for a vector of so many elements.
std::uint64_t moved_bytes(const RankPlan& plan, std::uint64_t count, std::size_t width);

class Operation final {
 public:
  // Who runs it, and what it borrows.
  struct Place {
    std::uint32_t rank = 0;
    std::uint32_t size = 1;
    const Device& device;
    Courier& courier;
    Pool& pool;
    ExecutionCache& cache;
    Board* board = nullptr;  // null: not all ranks share one
  };
  // `plan` may be null where none is needed: one rank, no elements, or a board. `tag`: what equal calls have in common.
  Operation(const Call& call, const Place& place, std::shared_ptr<const RankPlan> plan, std::uint64_t tag);
  ~Operation();

  bool step();  // true: something moved
  void on_completion(std::uint64_t token, const Status& status);
  bool over() const { return stage_ == Stage::kOver; }
  bool passing() const { return pass_.has_value(); }  // the next step takes another part of a large buffer
  const Status& result() const { return result_; }
  // A rank that made another call, as the board shows it; then this one does not get on.
  bool mismatched() const { return on_board_ && on_board_->mismatched(); }
  std::uint32_t mismatched_with() const { return *on_board_->mismatched(); }
  bool on_board() const { return on_board_.has_value(); }
  std::vector<std::uint32_t> waiting_for() const;

 private:
  enum class Stage : std::uint8_t { kBefore, kRun, kAfter, kOver };
  // A pass over a buffer, some of it per step.
  struct Pass {
    enum class Kind : std::uint8_t { kCopy, kScale, kDivide } kind;
    std::byte* destination;
    const std::byte* source;
    std::uint64_t count;
  };

  void prepare();
  void add_input_pass(std::byte* destination, Pass::Kind kind, std::uint64_t count);
  std::byte* borrow(std::uint64_t bytes);
  bool run_pass();
  void enter_run();
  ExecutionBuffers buffers() const;
  std::uint64_t input_count() const;
  std::uint64_t output_count() const;  // of what this rank gets

  const Call call_;
  const Place at_;
  const std::shared_ptr<const RankPlan> plan_;
  const std::uint64_t tag_;
  Stage stage_ = Stage::kBefore;
  Status result_;
  const std::byte* input_;
  std::byte* output_;
  std::uint64_t scalar_ = 0;
  std::optional<Pass> pass_;
  Pool::Block borrowed_{};
  std::unique_ptr<Execution> execution_;
  std::optional<BoardRun> on_board_;
};

}  // namespace r2ccl
