#pragma once
// Inside of Communicator. communicator.cc: joining, turns, the end. communicator_calls.cc: what was submitted. communicator_news.cc: what
// comes from sessions and the other ranks, and what becomes of NICs.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/agreement/agreement.h"
#include "comm/agreement/nic_watch.h"
#include "comm/agreement/plans.h"
#include "comm/call_notice.h"
#include "comm/communicator.h"
#include "comm/mailbox.h"
#include "comm/operation.h"
#include "comm/point_to_point.h"
#include "comm/server/gathering.h"

namespace r2ccl {

inline constexpr const char* kNotSetUp = "The communicator has not been set up yet.";

struct Communicator::Impl {
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

  Impl(Engine& engine_ref, Env env_parts, const Device& cpu, const UniqueId& id, std::uint32_t my_rank,
       std::uint32_t rank_count, const CommConfig& configuration)
      : engine(engine_ref),
        env(env_parts),
        device(cpu),
        rank(my_rank),
        size(rank_count),
        config(configuration),
        mode(mode_of(configuration.mode).value_or(Mode::kAuto)),
        key(engine_ref.join(id, my_rank, rank_count)),
        secret(id.secret),
        mailbox(engine_ref, GroupId{key.value}, id.secret, my_rank),
        plans(mode, configuration.algorithm, my_rank, configuration.plans) {}

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
  Result<std::unique_ptr<Invitation>> invite(const std::vector<std::uint32_t>& stay, std::optional<UniqueId> id);
  void count_done();
  void step_finishing();
  // The others let go first: rank 0 has to know that its last letter was read. They say so on their sessions and, where it is here, at
  // the root: either may be lost with a NIC.
  bool everybody_let_go();
  void end(CommState final_state);
  // Here and everywhere. The reason goes ahead of the abort.
  void give_up(Error why);
  Turn step(Instant at);
  void run(Turn& turn);

  // communicator_calls.cc
  Status takes_calls() const;
  Result<TicketPtr> submit(std::vector<Call> calls);
  static bool has_points(const Batch& batch);
  // The calls of the oldest batch, as far as they go. True: something moved.
  bool step_batch();
  // False: it may not begin yet, or its plan is not there.
  bool begin(const Call& call);
  // Gives the next collective its number, and with that the health map that it will run on, whenever its plan comes. False: not yet.
  bool bind(const Call& call);
  bool is_planned(const Call& call) const { return size > 1 && call.count > 0 && !board; }
  Result<RankPlanPtr> plan_for(const Call& call);
  void use_map();  // for plans
  Result<TimeEstimate> estimate(const std::vector<Call>& calls);
  void begin_counting(const RankPlan* plan);
  void count(std::uint64_t bytes);
  bool step_running(Batch& batch);
  void got_on();
  // Nothing has come for a while: ask those we wait for what they are doing, so that calls that do not match are found out.
  void ask(Turn& turn);
  void await_plan(Turn& turn);
  // Shared memory is looked at again soon.
  void peek(Turn& turn);
  void spin(Instant at, const std::function<bool(int)>& relax);

  // communicator_news.cc
  void on_completion(ProcessId peer, const Completion& completion);
  void on_done(const Mailbox::Done& done);
  void on_failed(const Mailbox::Done& done);
  // Nothing more can be given to a session.
  void stop(const Error& why);
  // Every call is done at every rank: whoever is gone now has left, also where its goodbye was lost with a NIC.
  bool is_farewell(const Error& why) const;
  void expect_reason(Error otherwise);
  // Its message belongs to another call than ours. It is asked, so that both calls can be named.
  void on_mismatch(std::uint32_t other);
  void on_notice(ProcessId from, ByteView bytes);
  void look(Turn& turn);
  void agree(Turn& turn);

  Engine& engine;
  Env env;
  const Device& device;
  const std::uint32_t rank;
  const std::uint32_t size;
  const CommConfig config;
  const Mode mode;
  const KeyId key;
  const Secret secret;
  Mailbox mailbox;
  Plans plans;
  Pool pool;
  ExecutionCache cache;

  CommState state = CommState::kJoining;
  Error error{Fault::kBug, ""};
  Instant now{};
  Instant refused_since = kNever;
  bool acted = false;         // something was given to the sessions that has to leave
  bool open = false;          // the members are known
  std::uint32_t missing = 0;  // rank 0: ranks whose kDone has not come, its own included
  bool done_sent = false;
  bool all_done = false;
  std::set<std::uint32_t> gone;  // rank 0: members that have let go
  std::size_t left_seen = 0;     // … of those who said so at the root
  Instant reason_until = kNever;
  Error without_reason{Fault::kBug, ""};

  Placement placement;
  std::optional<Gathering> gathering;
  Board* board = nullptr;  // where all ranks share memory
  bool gathered = false;
  std::optional<Agreement> agreement;
  std::vector<Permille> awaited;  // the map that calls wait for
  Instant awaited_until{};        // … at most
  std::optional<NicWatch> watch;
  std::uint64_t path_changes = UINT64_MAX;
  Instant next_look{};

  std::deque<Batch> queue;
  bool awaits_plan = false;  // collective `number` is bound and does not run yet
  std::optional<Operation> running;
  std::uint64_t running_tag = 0;
  std::uint64_t moved_so_far = 0;  // of its bytes, where somebody counts
  std::uint64_t to_move = 0;
  std::uint64_t number = 0;  // of the last collective bound
  PlanInUse in_use;
  std::map<std::vector<std::uint32_t>, std::uint32_t> invitations;  // so far, by who was invited
  std::deque<Past> past;
  Instant progress{};
  Instant next_ask = kNever;
  bool said = false;
};

}  // namespace r2ccl
