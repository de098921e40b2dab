#pragma once
// One rank of one communicator of a simulated run: the shipped Communicator, and an application that submits what the
// plan says, owns the buffers and checks what comes back.
//
//   elements      every one right, on every rank; inputs and everything outside the ranges as they were
//   memory        filled with a pattern as soon as the ticket is done, and compared at the end: who writes later is
//                 seen, who reads later spreads wrong elements
//   tickets       end in the order of submission, all of them, without fault unless the plan kills, cuts off or aborts
//   errors        name a rank; after a death the dead one, unless all that came through is who passed it on
//   regroup       once it has failed at all ranks that live, these hear of another id from the first of them
//
// Ownership  Borrows engine and board; lives in a SimProcess, which destroys it before its engine.

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "sim/net/collectives/collective_board.h"
#include "sim/net/user_memory.h"

namespace r2ccl::sim {

class CommMember final {
 public:
  CommMember(const Scenario& scenario, std::size_t communicator, std::uint32_t rank, CollectiveBoard& board,
             Referee& referee, const std::vector<ProcessId>& ids);

  // After every step of the engine. `start` kNever: the run has not begun.
  Turn step(Engine& engine, Env env, Instant start, Instant now);
  void abort();
  void destroy();  // as an application that exits
  bool ready() const { return planned().create_at > Duration{} || (communicator_ && state() != CommState::kJoining); }
  bool finished() const { return communicator_ && state() == CommState::kFinished; }
  // Nothing more will happen here.
  bool over() const;
  std::string unfinished() const;                 // what it waits for
  void check_end();                               // nobody touched memory afterwards
  std::uint64_t trace() const { return trace_; }  // of what it saw, for the digest

 private:
  // A buffer in use or used.
  struct Held {
    std::unique_ptr<UserMemory> memory;
    Bytes before;
    std::size_t output_at = 0;
    Bytes output;  // what must be there
  };
  struct Submitted {
    std::size_t batch;
    TicketPtr ticket;
    std::vector<Held> held;
  };

  const PlannedCommunicator& planned() const { return scenario_.collectives->communicators[index_]; }
  CommState state() const { return communicator_->state(); }
  bool create_due(Engine& engine, Env env, Instant start, Instant now, Turn& turn);
  bool submit_due(Instant start, Instant now, Turn& turn);
  void submit(std::size_t batch);
  Call hold(std::size_t batch, std::size_t call, Submitted& into);
  Call hold_transfer(std::size_t batch, std::size_t transfer, bool receive, Submitted& into);
  bool take_done(Instant start, Instant now);
  void settle(Submitted& submitted);
  void look_at_map(Instant start, Instant now);
  Instant healed_from(Instant start) const;
  void check_error(const Error& error);
  bool names_the_dead(const std::string& what) const;
  bool dies(std::uint32_t rank) const;
  std::vector<std::uint32_t> survivors() const;
  // This rank is one of those who meet again; false where a partition keeps them apart.
  bool meets_again() const;
  bool meet_again(Engine& engine);
  bool all_done() const { return next_ >= batches_ && pending_.empty(); }
  void complain(const std::string& what);

  const Scenario& scenario_;
  const std::size_t index_;
  const std::uint32_t rank_;
  CollectiveBoard& board_;
  Referee& referee_;
  const std::vector<ProcessId>& ids_;
  std::size_t batches_;   // to be submitted
  std::size_t next_ = 0;  // batch
  std::deque<Submitted> pending_;
  std::vector<std::unique_ptr<UserMemory>> used_;
  std::unique_ptr<Communicator> communicator_;  // goes before the memory it may use
  std::unique_ptr<Invitation> invitation_;
  bool met_again_ = false;
  std::uint64_t operation_ = 0;  // begun last
  bool error_seen_ = false;
  bool aborted_ = false;  // here
  bool destroyed_ = false;
  std::uint64_t trace_ = 0;
};

inline constexpr Duration kHealWithin = 90s;  // NICs, after the last fault; relapses cost up to 60 s

}  // namespace r2ccl::sim
