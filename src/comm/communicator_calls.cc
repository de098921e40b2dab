// What was submitted: batches in order, collectives bound to plans, and what happens while one waits.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/communicator_impl.h"

namespace r2ccl {
namespace {

constexpr Duration kAskAfter = 200ms;  // without progress: the others are asked what they are doing
constexpr Duration kAskEvery = 500ms;
constexpr Duration kSayAfter = 5s;       // … and the log says for whom we wait
constexpr std::size_t kRemembered = 64;  // calls, to compare with what others ask
constexpr std::size_t kStepsPerTurn = 64;
constexpr std::size_t kPartsPerTurn = 2;  // of a pass over a buffer: 8 MiB, 1 to 4 ms of a processor
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

Result<double> seconds_of(const TimeEstimate& estimate) {
  double seconds = estimate.known_s;
  for (const PlanQuestion& question : estimate.open) {
    const auto plan = answer(question);
    if (!plan) return std::unexpected(plan.error());
    seconds += (*plan)->predicted_s;
  }
  return seconds;
}

Status Communicator::Impl::takes_calls() const {
  if (state == CommState::kReady) return {};
  if (state == CommState::kFailed) return std::unexpected(error);
  return fail(Fault::kMisuse, state == CommState::kJoining ? kNotSetUp : "The communicator was finalized.");
}

Result<TicketPtr> Communicator::Impl::submit(std::vector<Call> calls) {
  if (const Status usable = takes_calls(); !usable) return std::unexpected(usable.error());
  auto ticket = std::make_shared<CallTicket>();
  queue.push_back({std::move(calls), ticket, 0, nullptr});
  return ticket;
}

bool Communicator::Impl::has_points(const Batch& batch) {
  return std::ranges::any_of(batch.calls, is_point_to_point, &Call::kind);
}

bool Communicator::Impl::step_batch() {
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

bool Communicator::Impl::bind(const Call& call) {
  if (!agreement->may_start(number + 1)) return false;
  agreement->started(++number);
  past.push_back({number, signature_of(call), call});
  if (past.size() > kRemembered) past.pop_front();
  got_on();
  awaits_plan = true;
  return true;
}

bool Communicator::Impl::begin(const Call& call) {
  if (!awaits_plan && !bind(call)) return false;
  RankPlanPtr plan;
  if (is_planned(call)) {
    auto made = plan_for(call);
    if (!made) {
      give_up(made.error());
      return false;
    }
    if (*made == nullptr) return false;
    plan = std::move(*made);
  }
  awaits_plan = false;
  const HealthMap& map = agreement->map();
  in_use = {plan ? plan->header.algorithm : board ? "shared_memory" : "local", map.version, number};
  running_tag = tag_of(number, map.version, past.back().signature);
  mailbox.begin(running_tag, plan && plan->keeps_rails);
  begin_counting(plan.get());
  const Operation::Place place{rank, size, device, mailbox, pool, cache, board};
  running.emplace(call, place, std::move(plan), running_tag);
  got_on();
  return true;
}

Result<RankPlanPtr> Communicator::Impl::plan_for(const Call& call) {
  use_map();
  return plans.plan_for(call, now);
}

// While a collective waits for its plan nobody asks may_start() for the next one, so the map is still its own.
void Communicator::Impl::use_map() {
  const HealthMap& map = agreement->map();
  if (plans.version() != map.version) plans.use(cluster_of(placement, map, config.fabric, config.costs), map.version);
}

Result<TimeEstimate> Communicator::Impl::estimate(const std::vector<Call>& calls) {
  if (const Status usable = takes_calls(); !usable) return std::unexpected(usable.error());
  const Cluster cluster = cluster_of(placement, agreement->map(), config.fabric, config.costs);
  use_map();
  TimeEstimate estimate;
  double sent = 0;
  double received = 0;
  for (const Call& call : calls) {
    const double bytes = static_cast<double>(call.count) * static_cast<double>(size_of(call.type));
    if (is_point_to_point(call.kind)) {
      (call.kind == CallKind::kSend ? sent : received) += bytes;
    } else if (is_planned(call)) {
      if (const auto plan = plans.known(call))
        estimate.known_s += plan->predicted_s;
      else
        estimate.open.push_back(plans.question(call));
    } else {
      estimate.known_s += static_cast<double>(vector_bytes(call, size)) / cluster.intra_rate;
    }
  }
  const double way = board ? cluster.intra_rate : cluster.server_rate(rank / placement.gpus);
  if (sent + received > 0) estimate.known_s += cluster.alpha_s + std::max(sent, received) / way;
  return estimate;
}

void Communicator::Impl::begin_counting(const RankPlan* plan) {
  if (!config.on_progress) return;
  moved_so_far = 0;
  to_move = plan != nullptr ? plan->moved_bytes : 0;
  config.on_progress({number, 0}, to_move, now);
}

void Communicator::Impl::count(std::uint64_t bytes) {
  if (!config.on_progress || to_move == 0) return;
  moved_so_far += bytes;
  const double share = static_cast<double>(moved_so_far) / static_cast<double>(to_move);
  config.on_progress({number, static_cast<std::uint32_t>(std::min(1.0, share) * 1e6)}, to_move, now);
}

bool Communicator::Impl::step_running(Batch& batch) {
  bool moved = false;
  for (std::size_t i = 0; i < kStepsPerTurn && !running->over() && running->step();) {
    moved = true;
    i += running->passing() ? kStepsPerTurn / kPartsPerTurn : 1;
  }
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

void Communicator::Impl::got_on() {
  progress = now;
  next_ask = now + kAskAfter;
  said = false;
}

void Communicator::Impl::await_plan(Turn& turn) {
  turn.merge({false, plans.next_look()});
  if (said) return;
  turn.merge({false, progress + kSayAfter});
  if (now < progress + kSayAfter) return;
  said = true;
  log(LogLevel::kWarn,
      fmt::format("Collective {} ({}) of rank {} waits for its plan.", number, past.back().text(), rank));
}

void Communicator::Impl::ask(Turn& turn) {
  if (awaits_plan) return await_plan(turn);
  if (!running) return;
  if (now >= next_ask) {
    next_ask = now + kAskEvery;
    const auto waiting = running->waiting_for();
    const Bytes notice = encode({CallNotice::Kind::kAsk, number, past.back().signature, past.back().text()});
    for (const std::uint32_t other : waiting) mailbox.notify(other, notice);
    if (now >= progress + kSayAfter && !said && !waiting.empty()) {
      said = true;
      log(LogLevel::kWarn, fmt::format("Collective {} ({}) of rank {} waits for {}.", number, past.back().text(), rank,
                                       mailbox.name_of(waiting.front())));
    }
  }
  turn.merge({false, next_ask});
}

void Communicator::Impl::peek(Turn& turn) {
  const bool waits = (running && running->on_board()) || mailbox.waits_for_neighbours();
  if (waits) turn.merge({false, now + std::clamp((now - progress) / 8, kPeekLeast, kPeekMost)});
}

void Communicator::Impl::spin(Instant at, const std::function<bool(int)>& relax) {
  if (state != CommState::kReady) return;
  now = at;
  mailbox.begin_turn();
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

}  // namespace r2ccl
