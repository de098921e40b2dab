#pragma once
// Who makes plans. Among a thousand ranks, or on isolated rails, a plan takes longer than a turn of the engine may, so
// a communicator asks for it and goes on with it when it is there. Meanwhile the engine serves everybody else.
//
//   PlanQuestion   what is asked: a value. Its answer is a pure function of it (plans.h), so all ranks get the same
//                  plan, whoever answers and however late
//   PlanSource     who answers: the thread of a process (worker_plans.h). Without one a communicator answers by itself,
//                  at once
//   AskedPlan      a question on its way; who lets it go wants no answer any more

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "planner/plan.h"
#include "topology/cluster.h"

namespace r2ccl {

enum class Mode : std::uint8_t;  // plans.h
struct RankPlan;                 // operation.h
using RankPlanPtr = std::shared_ptr<const RankPlan>;

// What all plans of one rank for one health map have in common.
struct PlanGround {
  Mode mode;
  std::string algorithm;  // empty: as the mode says
  std::uint32_t rank = 0;
  Cluster cluster;
  Cluster healthy;  // planned for where nothing can be planned on what is left
};

struct PlanQuestion {
  std::shared_ptr<const PlanGround> ground;
  Request request;
  std::size_t width = 1;  // bytes of an element
};

class AskedPlan {
 public:
  virtual ~AskedPlan() = default;
  // Null: it is not there yet. Throws what the planner threw.
  virtual const Result<RankPlanPtr>* poll(Instant now) = 0;
  // When to look again; kNever: whoever answers wakes whoever steps the engine.
  virtual Instant next_look() const { return kNever; }
};

class PlanSource {
 public:
  virtual ~PlanSource() = default;
  virtual std::unique_ptr<AskedPlan> ask(PlanQuestion question) = 0;
};

}  // namespace r2ccl
