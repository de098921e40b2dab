#pragma once
// Which plan a call gets. It is a pure function of call, cluster and mode, so every rank comes to the same plan by
// itself; Plans remembers those of equal calls.
//
// Threads    Plans: the communicator's. The functions: any.
// Failure    A call that the mode's algorithm can not do gets the plan of auto. One sentence where nobody can plan it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "comm/agreement/plan_source.h"
#include "comm/call.h"
#include "comm/operation.h"
#include "topology/cluster.h"

namespace r2ccl {

// R2CCL_MODE. kOff and kRepair never re-plan: the ring of the healthy cluster goes on.
//   off      ring; no plan for failures (sessions still repair: bytes are never given up, and go over all NICs that are
//            left)
//   repair   the papers' hot repair: one ring a NIC; that of a lost one goes over the next that is alive, which then
//            has two shares
//   balance  ring by surviving bandwidth
//   r2, optcc, direct, trees   that algorithm for all_reduce where it applies, else as auto
//   auto     the cheapest by the cost model
enum class Mode : std::uint8_t { kOff, kRepair, kBalance, kR2, kOptcc, kDirect, kTrees, kAuto };
Result<Mode> mode_of(const std::string& text);
bool replans(Mode mode);

// Making plans takes up to seconds among a thousand ranks. Any thread may call these.
Result<Plan> whole_plan(const PlanQuestion& question);  // of all ranks: the same for every rank's question
RankPlanPtr part_of(const Plan& plan, const PlanQuestion& question);
Result<RankPlanPtr> answer(const PlanQuestion& question);

class Plans final {
 public:
  static constexpr std::size_t kKept = 64;

  // `source` makes the plans that are not known; it outlives this object. Null: plan_for() makes them itself.
  Plans(Mode mode, std::string algorithm, std::uint32_t rank, PlanSource* source = nullptr)
      : mode_(mode), algorithm_(std::move(algorithm)), rank_(rank), source_(source) {}

  // The cluster to plan for where nothing can be planned on what is left: servers without a rail in common can only
  // wait for a NIC to come back.
  void set_healthy(const Cluster& cluster) { healthy_ = cluster; }
  // Forgets what it knows and what it has asked: both belong to the cluster before.
  void use(const Cluster& cluster, std::uint64_t version);
  std::uint64_t version() const { return version_; }  // of the cluster in use; UINT64_MAX: none yet
  // Null: it was asked for and is not there yet; ask again. A question about another call gives the one before up.
  Result<RankPlanPtr> plan_for(const Call& call, Instant now = {});
  // When it may be there without anybody being woken.
  Instant next_look() const { return asked_ ? asked_->plan->next_look() : kNever; }
  void stop_asking() { asked_.reset(); }
  // The plan of a call where it is known. Null where it is not; then question() is what has to be answered.
  RankPlanPtr known(const Call& call) const;
  PlanQuestion question(const Call& call) const;

 private:
  using Key = std::tuple<CallKind, std::uint64_t, std::uint32_t>;  // kind, bytes, root
  struct Asked {
    Key key;
    std::unique_ptr<AskedPlan> plan;
  };
  Key key_of(const Call& call) const;
  RankPlanPtr find(const Key& key) const;
  Result<RankPlanPtr> keep(const Key& key, const Result<RankPlanPtr>& plan);

  const Mode mode_;
  const std::string algorithm_;
  const std::uint32_t rank_;
  PlanSource* const source_;
  Cluster healthy_;
  std::shared_ptr<const PlanGround> ground_;
  std::uint64_t version_ = UINT64_MAX;
  std::vector<std::pair<Key, RankPlanPtr>> kept_;  // oldest first
  std::optional<Asked> asked_;
};

}  // namespace r2ccl
