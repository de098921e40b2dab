#pragma once
// Walks the steps of a lane in order, with every index resolved. It is the one place that knows what the loops of
// schedule.h mean.
//
// In a sparse lane most guards fail, so a guard must be cheap: each is a counter that moves along with the loops, and
// no visit of a step divides.

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace r2ccl {

class LaneCursor final {
 public:
  // `lane` must outlive the cursor. Its loops are walked as they are: bounding them is the checker's business.
  explicit LaneCursor(const Lane& lane);

  bool done() const { return outer_ >= lane_->outer; }
  const Step& step() const { return lane_->steps[step_]; }
  std::uint32_t step_number() const { return step_; }
  std::uint32_t outer() const { return outer_; }
  std::uint32_t inner() const { return inner_; }  // 0 outside the inner loop

  // Valid until next(). Out-of-range results are the checker's business, not asserted here.
  std::int64_t from() const { return step().from.at(outer_, inner_); }
  std::int64_t to() const { return step().to.at(outer_, inner_); }
  std::int64_t span() const { return step().span.at(outer_, inner_); }
  std::int64_t segment() const { return step().segment.at(outer_, inner_); }
  // The buffer the source is in, `first_source` taken into account.
  Buffer source() const { return step().has_first && !ran_[step_] ? step().first_source : step().source.buffer; }

  void next();
  // The lane has gone past `step` in the given iteration: it ran there, or was skipped.
  bool passed(std::uint32_t step, std::uint32_t outer, std::uint32_t inner) const;
  // The same for all inner iterations of `outer`.
  bool passed(std::uint32_t step, std::uint32_t outer) const;

 private:
  // One guard: holds where `value` is `wanted`. A guard without modulo never reaches its `modulo`.
  struct Counter {
    std::int64_t value;
    std::int64_t start;  // of `value` in inner iteration 0 of this outer one
    std::int64_t by_inner;
    std::int64_t by_outer;
    std::int64_t modulo;
    std::int64_t wanted;
  };

  void add_counter(const Guard& guard);
  void advance();           // one step on, wherever that is
  void next_inner();        // moves the counters one inner iteration on
  void next_outer();        // moves them one outer iteration on, and forgets what ran
  bool runs_here() const;   // range and guards
  void skip_idle();         // to the next step that runs, or to the end
  void leave_empty_loop();  // an inner loop without iterations is not entered
  bool inside(std::uint32_t step) const { return step >= lane_->inner_begin && step < inner_end_; }

  const Lane* lane_;
  std::uint32_t inner_end_;
  std::uint32_t outer_ = 0;
  std::uint32_t inner_ = 0;
  std::uint32_t step_ = 0;
  std::vector<std::uint8_t> ran_;             // by step: ran in an earlier inner iteration of this outer one
  std::vector<Counter> counters_;             // by step
  std::vector<std::uint32_t> first_counter_;  // [step]; one more at the end; empty when no step has a guard
};

}  // namespace r2ccl
