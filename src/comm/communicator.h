#pragma once
// A communicator of one rank: joins the others, agrees with them on plans, runs calls in order.
//
//   kJoining ─▶ kReady ─▶ kFinishing ─▶ kFinished
//       └──────────┴──────────┴──────▶ kFailed        abort, peer down, mismatched calls, a bug; error() says which
//
// Calls of one submit() that are sends and receives run side by side, whatever their order; collectives run one after
// another in the order of submission, the same on every rank. Each collective is bound to a plan when it gets its
// number: (call, cluster of the health map in force). Maps change only at agreed operation numbers (agreement.h), so a
// plan that takes its time still is the right one.
//
// Role       A state machine over an Engine: no thread, no clock, no blocking; the simulator drives it as it is.
//            process/world.h has the blocking calls.
// Ownership  Engine, device, log outlive it. User memory stays valid until its ticket is done.
// Threads    The engine's driver.
// Failure    Once failed it stays so; every pending and later ticket is done with the error, after nothing touches user
//            memory.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "comm/agreement/agreement.h"
#include "comm/agreement/nic_watch.h"
#include "comm/agreement/plans.h"
#include "comm/call.h"
#include "comm/call_notice.h"
#include "comm/comm_config.h"
#include "comm/invitation.h"
#include "comm/mailbox.h"
#include "comm/operation.h"
#include "comm/point_to_point.h"
#include "comm/server/gathering.h"
#include "env/env.h"
#include "runtime/engine.h"

namespace r2ccl {

class Communicator final : public EngineTask {
 public:
  Communicator(Engine& engine, Env env, const Device& device, const UniqueId& id, std::uint32_t rank,
               std::uint32_t size, const CommConfig& config);
  ~Communicator() override;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }
  CommState state() const { return state_; }
  const Error& error() const { return error_; }  // of kFailed
  const PlanInUse& plan_in_use() const { return in_use_; }
  // That the last collective used, or the next one will if none has begun; null before the members are known.
  const HealthMap* health_map() const { return agreement_ ? &agreement_->map() : nullptr; }
  // Ranks the running call waits for; empty when it gets on.
  std::vector<std::uint32_t> waiting_for() const;

  // The calls were validated. kMisuse when the communicator does not take calls any more.
  Result<TicketPtr> submit(std::vector<Call> calls);
  // Takes no more calls; finished when all submitted ones are done at every rank.
  void finish();
  // Ends it here and at every rank; when it returns nothing touches user memory.
  void abort(const std::string& why);
  // How long these calls would take with nothing else to do, by the cost model: sends and receives side by side,
  // collectives one after another.
  Result<TimeEstimate> estimate(const std::vector<Call>& calls);
  // Makes an invitation, by which the ranks `stay` of this communicator hear of the id of another one, whatever has
  // become of this one. The first of them has the id. The n-th invitation of the same ranks is the same one at all of
  // them.
  Result<std::unique_ptr<Invitation>> invite(const std::vector<std::uint32_t>& stay, std::optional<UniqueId> id);

  // For a caller that waits: goes on with what was submitted while only memory is waited for, without a turn of the
  // engine. Between two looks it calls `relax` with how many there were in a row, which says whether to go on.
  // Returns when it can not go on like this, when something is done, or when the engine should have its turn. Only
  // where it may.
  bool may_spin() const { return board_ != nullptr; }
  void spin(Instant now, FunctionRef<bool(int looks)> relax);
  std::uint32_t ranks_here();  // of this communicator on this server, once joined

  void on_completion(ProcessId peer, const Completion& completion) override;
  void on_notice(ProcessId from, ByteView bytes) override;
  Turn step(Instant now) override;

 private:
  struct Batch {
    std::vector<Call> calls;
    TicketPtr ticket;
    std::size_t next = 0;  // collective to begin
    std::unique_ptr<PointToPoint> points;
  };
  struct Past {
    std::uint64_t number;
    std::uint64_t signature;
    Call call;
    std::string text() const { return describe(call); }
  };

  // communicator.cc
  void step_joining(Turn& turn);
  void watch_refusal(Turn& turn);
  void open_members();
  void listen();
  void step_gathering();
  void await_map_without(NicName lost);
  void become_ready(Turn& turn);
  void post(std::uint32_t to, Letter letter) { post(to, Bytes{static_cast<std::byte>(letter)}); }
  void post(std::uint32_t to, Bytes bytes);
  void post_all(const Bytes& bytes);
  void on_letter(std::uint32_t from, ByteView bytes);
  void log(LogLevel level, const std::string& line);
  void count_done();
  void step_finishing();
  // The others let go first: rank 0 has to know that its last letter was read. They say so on their sessions and,
  // where it is here, at the root: either may be lost with a NIC.
  bool everybody_let_go();
  void end(CommState final_state);
  // Here and everywhere. The reason goes ahead of the abort.
  void give_up(Error why);
  void run(Turn& turn);

  // communicator_calls.cc
  Status takes_calls() const;
  static bool has_points(const Batch& batch);
  // The calls of the oldest batch, as far as they go. True: something moved.
  bool step_batch();
  // False: it may not begin yet, or its plan is not there.
  bool begin(const Call& call);
  // Gives the next collective its number, and with that the health map that it will run on, whenever its plan comes.
  // False: not yet.
  bool bind(const Call& call);
  bool is_planned(const Call& call) const { return size_ > 1 && call.count > 0 && !board_; }
  Result<RankPlanPtr> plan_for(const Call& call);
  void use_map();  // for plans
  void begin_counting(const RankPlan* plan);
  void count(std::uint64_t bytes);
  bool step_running(Batch& batch);
  void got_on();
  // Nothing has come for a while: ask those we wait for what they are doing, so that calls that do not match are
  // found out.
  void ask(Turn& turn);
  void await_plan(Turn& turn);
  // Shared memory is looked at again soon.
  void peek(Turn& turn);

  // communicator_news.cc
  void on_done(const Mailbox::Done& done);
  void on_failed(const Mailbox::Done& done);
  // Nothing more can be given to a session.
  void stop(const Error& why);
  // Every call is done at every rank: whoever is gone now has left, also where its goodbye was lost with a NIC.
  bool is_farewell(const Error& why) const;
  void expect_reason(Error otherwise);
  // Its message belongs to another call than ours. It is asked, so that both calls can be named.
  void on_mismatch(std::uint32_t other);
  void look(Turn& turn);
  void agree(Turn& turn);

  const std::uint32_t rank_;
  const std::uint32_t size_;
  Engine& engine_;
  Env env_;
  const Device& device_;
  const CommConfig config_;
  const Mode mode_;
  const KeyId key_;
  const Secret secret_;
  Mailbox mailbox_;
  Plans plans_;
  Pool pool_;
  ExecutionCache cache_;

  CommState state_ = CommState::kJoining;
  Error error_{Fault::kBug, ""};
  Instant now_{};
  Instant refused_since_ = kNever;
  bool acted_ = false;         // something was given to the sessions that has to leave
  bool open_ = false;          // the members are known
  std::uint32_t missing_ = 0;  // rank 0: ranks whose kDone has not come, its own included
  bool done_sent_ = false;
  bool all_done_ = false;
  std::set<std::uint32_t> gone_;  // rank 0: members that have let go
  std::size_t left_seen_ = 0;     // … of those who said so at the root
  Instant reason_until_ = kNever;
  Error without_reason_{Fault::kBug, ""};

  Placement placement_;
  std::optional<Gathering> gathering_;
  Board* board_ = nullptr;  // where all ranks share memory
  bool gathered_ = false;
  std::optional<Agreement> agreement_;
  std::vector<Permille> awaited_;  // the map that calls wait for
  Instant awaited_until_{};        // … at most
  std::optional<NicWatch> watch_;
  std::uint64_t path_changes_ = UINT64_MAX;
  Instant next_look_{};

  std::deque<Batch> queue_;
  bool awaits_plan_ = false;  // collective `number` is bound and does not run yet
  std::optional<Operation> running_;
  std::uint64_t running_tag_ = 0;
  std::uint64_t moved_so_far_ = 0;  // of its bytes, where somebody counts
  std::uint64_t to_move_ = 0;
  std::uint64_t number_ = 0;  // of the last collective bound
  PlanInUse in_use_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> invitations_;  // so far, by who was invited
  std::deque<Past> past_;
  Instant progress_{};
  Instant next_ask_ = kNever;
  bool said_ = false;
};

}  // namespace r2ccl
