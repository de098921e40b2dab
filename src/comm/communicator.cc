#include "comm/communicator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "base/assert.h"
#include "comm/agreement.h"
#include "comm/gathering.h"
#include "comm/mailbox.h"
#include "comm/nic_watch.h"
#include "comm/operation.h"
#include "comm/plans.h"
#include "comm/point_to_point.h"
#include "comm/words.h"

namespace r2ccl {
namespace {

constexpr Duration kLookEvery = 100ms;  // at rates, while something runs
constexpr Duration kAskAfter = 200ms;   // without progress: the others are asked what they are doing
constexpr Duration kAskEvery = 500ms;
constexpr Duration kSayAfter = 5s;       // … and the log says for whom we wait
constexpr Duration kReasonWithin = 1s;   // after an abort by another rank, its reason is waited for
constexpr Duration kRefusedMax = 5s;     // the root refuses us: given up
constexpr std::size_t kRemembered = 64;  // calls, to compare with what others ask
constexpr std::size_t kStepsPerTurn = 64;
// Shared memory rings no bell: who waits there looks again after an eighth of the time it has waited, within these.
constexpr Duration kPeekLeast = 2us;
constexpr Duration kPeekMost = 1ms;
// … and before that, whoever waits in a call looks again and again, for so long since something moved.
constexpr Duration kHurryMost = 1ms;
constexpr int kLooksMost = 1000;  // until the engine has a turn
constexpr int kMovesMost = 32;

std::uint64_t tag_of(std::uint64_t number, std::uint64_t version, std::uint64_t signature) {
  std::uint64_t hash = (number * 0x9e3779b97f4a7c15 ^ version) * 0xc2b2ae3d27d4eb4f ^ signature;
  return hash ^ (hash >> 31);
}

}  // namespace

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
        mailbox(engine_ref, GroupId{key.value}, id.secret, my_rank),
        plans(mode, configuration.algorithm, my_rank) {}

  Engine& engine;
  Env env;
  const Device& device;
  const std::uint32_t rank;
  const std::uint32_t size;
  const CommConfig config;
  const Mode mode;
  const KeyId key;
  Mailbox mailbox;
  Plans plans;
  Pool pool;
  Shelf shelf;

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
  std::optional<Agreement> agreement;
  std::optional<NicWatch> watch;
  std::uint64_t path_changes = UINT64_MAX;
  Instant next_look{};

  std::deque<Batch> queue;
  std::optional<Operation> running;
  std::uint64_t running_tag = 0;
  std::uint64_t moved_so_far = 0;  // of its bytes, where somebody counts
  std::uint64_t to_move = 0;
  std::uint64_t number = 0;  // of the last collective begun
  PlanInUse in_use;
  std::deque<Past> past;
  Instant progress{};
  Instant next_ask = kNever;
  bool said = false;

  // ---- joining ----
  void step_joining(Turn& turn) {
    if (!open) {
      if (!engine.ready(key)) return watch_refusal(turn);
      open_members();
      turn.moved = true;
    }
  }

  void watch_refusal(Turn& turn) {
    if (engine.join_failure(key).empty()) {
      refused_since = kNever;
      return;
    }
    if (refused_since == kNever) refused_since = now;
    if (now >= refused_since + kRefusedMax) return give_up({Fault::kMisuse, engine.join_failure(key)});
    turn.merge({false, refused_since + kRefusedMax});
  }

  void open_members() {
    open = true;
    placement = place(engine.roster(key), config.costs.unknown_rate);
    plans.set_healthy(cluster_of(placement, all_healthy(placement), config.fabric, config.costs));
    agreement.emplace(rank, size, placement);
    watch.emplace(placement.nics);
    gathering.emplace(engine.roster(key), rank, config.shared_memory, env.random.next());
    const std::size_t longest =
        std::max(64 + placement.nic_rate.size() * sizeof(Permille), gathering->letter_bytes_max());
    const Status status = mailbox.open(engine.roster(key), longest);
    if (!status) return give_up(status.error());
    step_gathering();
  }

  void step_gathering() {
    for (Gathering::Out& out : gathering->take_out()) post(out.to, std::move(out.bytes));
    if (!gathering->over() || state != CommState::kJoining) return;
    if (!gathering->why_not_shared().empty())
      log(LogLevel::kInfo, fmt::format("Rank {} uses no shared memory: {}", rank, gathering->why_not_shared()));
    Neighbours& neighbours = gathering->neighbours();
    board = neighbours.board();
    if (neighbours.alley() != nullptr) mailbox.share(*neighbours.alley());
    missing = size;
    state = CommState::kReady;
  }

  void post(std::uint32_t to, Letter letter) { post(to, Bytes{static_cast<std::byte>(letter)}); }
  void post(std::uint32_t to, Bytes bytes) {
    acted = true;
    if (const Status status = mailbox.send_letter(to, std::move(bytes)); !status) stop(status.error());
  }
  void post_all(const Bytes& bytes) {
    for (std::uint32_t to = 1; to < size; ++to) post(to, bytes);
  }

  void on_letter(std::uint32_t from, ByteView bytes) {
    if (bytes.empty()) return;
    if (bytes[0] < static_cast<std::byte>(Letter::kFirst)) {
      if (!agreement->on_message(from, bytes))
        give_up({Fault::kBug, mailbox.name_of(from) + " sent a letter that can not be read."});
      return;
    }
    switch (const auto kind = static_cast<Letter>(bytes[0])) {
      case Letter::kHere:
      case Letter::kGo:
      case Letter::kMapped:
      case Letter::kStart:
        if (!gathering->on_letter(from, kind, bytes.subspan(1)))
          return give_up({Fault::kBug, mailbox.name_of(from) + " sent a letter that can not be read."});
        return step_gathering();
      case Letter::kDone:
        return count_done();
      case Letter::kAllDone:
        all_done = true;
        return;
    }
  }

  // ---- calls ----
  Result<TicketPtr> submit(std::vector<Call> calls) {
    if (state == CommState::kFailed) return std::unexpected(error);
    if (state != CommState::kReady)
      return fail(Fault::kMisuse, state == CommState::kJoining ? "The communicator has not been set up yet."
                                                               : "The communicator was finalized.");
    auto ticket = std::make_shared<CallTicket>();
    queue.push_back({std::move(calls), ticket, 0, nullptr});
    return ticket;
  }

  static bool has_points(const Batch& batch) {
    return std::ranges::any_of(batch.calls, is_point_to_point, &Call::kind);
  }

  // The calls of the oldest batch, as far as they go. True: something moved.
  bool step_batch() {
    Batch& batch = queue.front();
    bool moved = false;
    if (!batch.points && has_points(batch)) {
      batch.points = std::make_unique<PointToPoint>(batch.calls, rank, mailbox, device);
      got_on();
      moved = true;
    }
    if (batch.points) moved |= batch.points->step();
    if (batch.points && !batch.points->result()) {
      stop(batch.points->result().error());
      return true;
    }
    while (batch.next < batch.calls.size() && is_point_to_point(batch.calls[batch.next].kind)) ++batch.next;
    if (!running && batch.next < batch.calls.size() && begin(batch.calls[batch.next])) moved = true;
    if (running) moved |= step_running(batch);
    if (state == CommState::kFailed) return true;
    if (!running && batch.next >= batch.calls.size() && (!batch.points || batch.points->over())) {
      batch.ticket->done = true;
      queue.pop_front();
      moved = true;
    }
    return moved;
  }

  bool begin(const Call& call) {
    if (!agreement->may_start(number + 1)) return false;
    agreement->started(++number);
    const HealthMap& map = agreement->map();
    std::shared_ptr<const RankPlan> plan;
    if (size > 1 && call.count > 0 && !board) {
      if (plans.version() != map.version)
        plans.use(cluster_of(placement, map, config.fabric, config.costs), map.version);
      auto made = plans.plan_for(call);
      if (!made) {
        give_up(made.error());
        return false;
      }
      plan = std::move(*made);
    }
    in_use = {plan ? plan->frame.algorithm : board ? "shared_memory" : "local", map.version, number};
    past.push_back({number, signature_of(call), call});
    if (past.size() > kRemembered) past.pop_front();
    running_tag = tag_of(number, map.version, past.back().signature);
    mailbox.begin(running_tag, plan && plan->keeps_rails);
    begin_counting(plan.get());
    const Operation::Place place{rank, size, device, mailbox, pool, shelf, board};
    running.emplace(call, place, std::move(plan), running_tag);
    got_on();
    return true;
  }

  void begin_counting(const RankPlan* plan) {
    if (!config.on_progress) return;
    moved_so_far = 0;
    to_move = plan != nullptr ? plan->moved_bytes : 0;
    config.on_progress(number, 0, now);
  }

  void count(std::uint64_t bytes) {
    if (!config.on_progress || to_move == 0) return;
    moved_so_far += bytes;
    const double share = static_cast<double>(moved_so_far) / static_cast<double>(to_move);
    config.on_progress(number, static_cast<std::uint32_t>(std::min(1.0, share) * 1e6), now);
  }

  bool step_running(Batch& batch) {
    bool moved = false;
    for (std::size_t i = 0; i < kStepsPerTurn && !running->over() && running->step(); ++i) moved = true;
    if (running->mismatched() && reason_until == kNever) on_mismatch(running->mismatched_with());
    if (moved && running->on_board()) got_on();
    if (!running->over()) return moved;
    if (!running->result()) {
      stop(running->result().error());
      return true;
    }
    running.reset();
    ++batch.next;
    return true;
  }

  void got_on() {
    progress = now;
    next_ask = now + kAskAfter;
    said = false;
  }

  // Nothing has come for a while: ask those we wait for what they are doing, so that calls that do not match are found out.
  void ask(Turn& turn) {
    if (!running) return;
    if (now >= next_ask) {
      next_ask = now + kAskEvery;
      const auto waiting = running->waiting_for();
      const Bytes word = encode({Word::Kind::kAsk, number, past.back().signature, past.back().text()});
      for (const std::uint32_t other : waiting) mailbox.tell(other, word);
      if (now >= progress + kSayAfter && !said && !waiting.empty()) {
        said = true;
        log(LogLevel::kWarn, fmt::format("Collective {} ({}) of rank {} waits for {}.", number, past.back().text(),
                                         rank, mailbox.name_of(waiting.front())));
      }
    }
    turn.merge({false, next_ask});
  }

  // Shared memory is looked at again soon.
  void peek(Turn& turn) {
    const bool waits = (running && running->on_board()) || mailbox.waits_for_neighbours();
    if (waits) turn.merge({false, now + std::clamp((now - progress) / 8, kPeekLeast, kPeekMost)});
  }

  void log(LogLevel level, const std::string& line) {
    if (env.log.enabled(level)) env.log.write(level, line);
  }

  // ---- what comes in ----
  void on_completion(ProcessId peer, const Completion& completion) {
    if (const auto done = mailbox.sort(peer, completion)) on_done(*done);
  }

  void on_done(const Mailbox::Done& done) {
    if (state == CommState::kFailed || state == CommState::kFinished) return;
    if (!done.status) return on_failed(done);
    got_on();
    switch (done.kind) {
      case Mailbox::Kind::kCollective:
        if (!running) return;
        if (done.tag != running_tag) return on_mismatch(done.rank);
        count(done.bytes);
        return running->on_completion(done.token, done.status);
      case Mailbox::Kind::kPoint:
        if (!queue.empty() && queue.front().points) queue.front().points->on_completion(done);
        return;
      case Mailbox::Kind::kLetterIn: {
        const auto letter = mailbox.take_letter(done);
        on_letter(letter.from, letter.bytes);
        if (!letter.next) on_failed({done.kind, done.token, done.rank, 0, 0, letter.next});
        return;
      }
      case Mailbox::Kind::kLetterOut:
        return;
    }
  }

  void on_failed(const Mailbox::Done& done) {
    const Error& why = done.status.error();
    if (is_farewell(why)) {
      if (done.kind == Mailbox::Kind::kLetterIn) gone.insert(done.rank);  // one is awaited from each
      return;
    }
    if (why.fault == Fault::kMisuse && done.kind == Mailbox::Kind::kCollective && running)
      return on_mismatch(done.rank);
    if (why.fault != Fault::kAborted) return give_up({why.fault, mailbox.name_in(why.what, done.rank)});
    expect_reason({Fault::kAborted, fmt::format("{} has ended the communicator.", mailbox.name_of(done.rank))});
  }

  // Nothing more can be given to a session.
  void stop(const Error& why) {
    if (is_farewell(why)) return;
    if (why.fault != Fault::kAborted) return give_up(why);
    expect_reason(why);
  }

  // Every call is done at every rank: whoever is gone now has left, also where its goodbye was lost with a NIC.
  bool is_farewell(const Error& why) const {
    return all_done && (why.fault == Fault::kAborted || why.fault == Fault::kPeerDown);
  }

  void expect_reason(Error otherwise) {
    if (reason_until != kNever) return;
    reason_until = now + kReasonWithin;
    without_reason = std::move(otherwise);
  }

  // Its message belongs to another call than ours. It is asked, so that both calls can be named.
  void on_mismatch(std::uint32_t other) {
    mailbox.tell(other, encode({Word::Kind::kAsk, number, past.back().signature, past.back().text()}));
    expect_reason({Fault::kMisuse, fmt::format("{} made another call as collective {} than this rank's {}.",
                                               mailbox.name_of(other), number, past.back().text())});
  }

  void on_word(ProcessId from, ByteView bytes) {
    const auto word = parse_word(bytes);
    const std::uint32_t other = mailbox.rank_of(from);
    if (!word || other == UINT32_MAX || state == CommState::kFailed || state == CommState::kFinished) return;
    if (word->kind == Word::Kind::kFailed) {
      const auto fault =
          word->number <= static_cast<std::uint64_t>(Fault::kBug) ? static_cast<Fault>(word->number) : Fault::kBug;
      return give_up({fault, word->text});
    }
    const auto mine = std::ranges::find(past, word->number, &Past::number);
    if (mine == past.end() || mine->signature == word->signature) return;
    give_up({Fault::kMisuse, fmt::format("Collective {} differs: {} called {}, {} called {}.", word->number,
                                         mailbox.name_of(rank), mine->text(), mailbox.name_of(other), word->text)});
  }

  // ---- health ----
  void look(Turn& turn) {
    if (!replans(mode)) return;
    const bool busy = running.has_value();
    if (engine.path_changes() != path_changes || (busy && now >= next_look)) {
      path_changes = engine.path_changes();
      next_look = now + kLookEvery;
      agreement->report(watch->look(mailbox.paths(), now));
    }
    if (busy) turn.merge({false, next_look});
  }

  void agree(Turn& turn) {
    look(turn);
    turn.merge(agreement->step(now));
    for (Agreement::Out& out : agreement->take_out()) {
      post(out.to, std::move(out.bytes));
    }
  }

  // ---- the end ----
  void count_done() {
    if (--missing > 0) return;
    all_done = true;
    post_all({static_cast<std::byte>(Letter::kAllDone)});
  }

  void step_finishing() {
    if (queue.empty() && !std::exchange(done_sent, true)) rank == 0 ? count_done() : post(0, Letter::kDone);
    if (!all_done || state == CommState::kFailed) return;
    if (rank == 0 && !everybody_let_go()) return;
    end(CommState::kFinished);
  }

  // The others let go first: rank 0 has to know that its last letter was read. They say so on their sessions and, where it is here, at
  // the root: either may be lost with a NIC.
  bool everybody_let_go() {
    const std::vector<ProcessId>& left = engine.left(key);
    for (; left_seen < left.size(); ++left_seen) gone.insert(mailbox.rank_of(left[left_seen]));
    return gone.size() + 1 >= size;
  }

  void end(CommState final_state) {
    acted = true;
    mailbox.abort();
    running.reset();
    state = final_state;
    engine.leave(key, now);
  }

  // Here and everywhere. The reason goes ahead of the abort.
  void give_up(Error why) {
    if (state == CommState::kFailed || state == CommState::kFinished) return;
    error = std::move(why);
    log(error.fault == Fault::kAborted ? LogLevel::kInfo : LogLevel::kError,
        fmt::format("Communicator of rank {} ends: {}", rank, error.what));
    if (open) mailbox.tell_all(encode({Word::Kind::kFailed, static_cast<std::uint64_t>(error.fault), 0, error.what}));
    end(CommState::kFailed);
    for (Batch& batch : std::exchange(queue, {})) {
      batch.ticket->result = std::unexpected(error);
      batch.ticket->done = true;
    }
  }

  void hurry(Instant at, const std::function<bool(int)>& relax) {
    if (state != CommState::kReady) return;
    now = at;
    if (running && now >= progress + kHurryMost) return;
    const std::size_t waiting = queue.size();
    for (int looks = 0, moves = 0; looks < kLooksMost && moves < kMovesMost;) {
      if (reason_until != kNever || queue.size() < waiting || queue.empty()) return;
      if (step_batch()) {
        ++moves;
        looks = 0;
        continue;
      }
      if (!running || !running->on_board() || !relax(++looks)) return;
    }
  }

  Turn step(Instant at) {
    now = at;
    Turn turn;
    if (state != CommState::kFailed && state != CommState::kFinished) run(turn);
    turn.moved |= std::exchange(acted, false);
    return turn;
  }

  void run(Turn& turn) {
    if (state == CommState::kJoining) step_joining(turn);
    if (open && state != CommState::kFailed) agree(turn);
    if (reason_until != kNever) {
      if (now >= reason_until) give_up(without_reason);
      turn.merge({false, reason_until});
    } else if (!queue.empty() && state != CommState::kFailed) {
      turn.moved |= mailbox.step_neighbours([this](const Mailbox::Done& done) { on_done(done); });
      if (state != CommState::kFailed && !queue.empty()) turn.moved |= step_batch();
      ask(turn);
      peek(turn);
    }
    if (state == CommState::kFinishing) step_finishing();
  }
};

Communicator::Communicator(Engine& engine, Env env, const Device& device, const UniqueId& id, std::uint32_t rank,
                           std::uint32_t size, const CommConfig& config)
    : rank_(rank), size_(size), impl_(std::make_unique<Impl>(engine, env, device, id, rank, size, config)) {
  engine.attach(GroupId{impl_->key.value}, *this);
}

Communicator::~Communicator() {
  abort("The communicator was destroyed.");
  impl_->engine.detach(GroupId{impl_->key.value});
}

CommState Communicator::state() const {
  return impl_->state;
}
const Error& Communicator::error() const {
  return impl_->error;
}
const PlanInUse& Communicator::plan_in_use() const {
  return impl_->in_use;
}
const HealthMap* Communicator::health_map() const {
  return impl_->agreement ? &impl_->agreement->map() : nullptr;
}
std::vector<std::uint32_t> Communicator::waiting_for() const {
  return impl_->running ? impl_->running->waiting_for() : std::vector<std::uint32_t>{};
}
Result<TicketPtr> Communicator::submit(std::vector<Call> calls) {
  return impl_->submit(std::move(calls));
}
void Communicator::finish() {
  if (impl_->state == CommState::kReady) impl_->state = CommState::kFinishing;
}
void Communicator::abort(const std::string& why) {
  impl_->give_up({Fault::kAborted, why});
}
bool Communicator::may_hurry() const {
  return impl_->board != nullptr;
}
void Communicator::hurry(Instant now, const std::function<bool(int)>& relax) {
  impl_->hurry(now, relax);
}
std::uint32_t Communicator::ranks_here() const {
  const std::size_t beside = impl_->gathering ? impl_->gathering->neighbours().here().size() : 0;
  return std::max(1U, static_cast<std::uint32_t>(beside));
}
void Communicator::on_completion(ProcessId peer, const Completion& completion) {
  impl_->on_completion(peer, completion);
}
void Communicator::on_word(ProcessId from, ByteView bytes) {
  impl_->on_word(from, bytes);
}
Turn Communicator::step(Instant now) {
  return impl_->step(now);
}

}  // namespace r2ccl
