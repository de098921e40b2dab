// What was submitted: batches in order, collectives bound to plans, and what happens while one waits.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/communicator.h"

namespace r2ccl {
namespace {

constexpr Duration kAskAfter = 200ms;  // without progress: the others are asked what they are doing
constexpr Duration kAskEvery = 500ms;
constexpr Duration kSayAfter = 5s;       // … and the log says for whom we wait
constexpr std::size_t kRemembered = 64;  // calls, to compare with what others ask
constexpr std::size_t kStepsPerTurn = 64;
constexpr std::size_t kPartsPerTurn = 2;  // of a pass over a buffer: 8 MiB, 1 to 4 ms of a processor
// Nobody is woken by shared memory: who waits for it looks again after an eighth of the time it has waited, within
// these bounds.
constexpr Duration kPeekLeast = 2us;
constexpr Duration kPeekMost = 1ms;
// Before that, whoever waits in a call looks again and again, for so long since something moved.
constexpr Duration kSpinMost = 1ms;
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

Status Communicator::takes_calls() const {
  if (state_ == CommState::kReady) return {};
  if (state_ == CommState::kFailed) return std::unexpected(error_);
  return fail(Fault::kMisuse, state_ == CommState::kJoining ? "The communicator has not been set up yet."
                                                            : "The communicator was finalized.");
}

Result<TicketPtr> Communicator::submit(std::vector<Call> calls) {
  if (const Status usable = takes_calls(); !usable) return std::unexpected(usable.error());
  auto ticket = std::make_shared<CallTicket>();
  queue_.push_back({std::move(calls), ticket, 0, nullptr});
  return ticket;
}

bool Communicator::has_points(const Batch& batch) {
  return std::ranges::any_of(batch.calls, is_point_to_point, &Call::kind);
}

bool Communicator::step_batch() {
  Batch& batch = queue_.front();
  bool moved = false;
  if (!batch.points && has_points(batch)) {
    batch.points = std::make_unique<PointToPoint>(batch.calls, rank_, mailbox_, device_);
    got_on();
    moved = true;
  }
  if (batch.points) moved |= batch.points->step();
  if (batch.points && !batch.points->result()) {
    stop(batch.points->result().error());
    return true;
  }
  while (batch.next < batch.calls.size() && is_point_to_point(batch.calls[batch.next].kind)) ++batch.next;
  if (!running_ && batch.next < batch.calls.size() && begin(batch.calls[batch.next])) moved = true;
  if (running_) moved |= step_running(batch);
  if (state_ == CommState::kFailed) return true;
  if (!running_ && batch.next >= batch.calls.size() && (!batch.points || batch.points->over())) {
    batch.ticket->done = true;
    queue_.pop_front();
    moved = true;
  }
  return moved;
}

bool Communicator::bind(const Call& call) {
  if (!agreement_->may_start(number_ + 1)) return false;
  agreement_->started(++number_);
  past_.push_back({number_, signature_of(call), call});
  if (past_.size() > kRemembered) past_.pop_front();
  got_on();
  awaits_plan_ = true;
  return true;
}

bool Communicator::begin(const Call& call) {
  if (!awaits_plan_ && !bind(call)) return false;
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
  awaits_plan_ = false;
  const HealthMap& map = agreement_->map();
  in_use_ = {plan ? plan->header.algorithm : board_ ? "shared_memory" : "local", map.version, number_};
  running_tag_ = tag_of(number_, map.version, past_.back().signature);
  mailbox_.begin(running_tag_, plan && plan->keeps_rails);
  begin_counting(plan.get());
  const Operation::Place place{rank_, size_, device_, mailbox_, pool_, cache_, board_};
  running_.emplace(call, place, std::move(plan), running_tag_);
  got_on();
  return true;
}

Result<RankPlanPtr> Communicator::plan_for(const Call& call) {
  use_map();
  return plans_.plan_for(call, now_);
}

// While a collective waits for its plan nobody asks may_start() for the next one, so the map is still its own.
void Communicator::use_map() {
  const HealthMap& map = agreement_->map();
  if (plans_.version() != map.version)
    plans_.use(cluster_of(placement_, map, config_.fabric, config_.costs), map.version);
}

Result<TimeEstimate> Communicator::estimate(const std::vector<Call>& calls) {
  if (const Status usable = takes_calls(); !usable) return std::unexpected(usable.error());
  const Cluster cluster = cluster_of(placement_, agreement_->map(), config_.fabric, config_.costs);
  use_map();
  TimeEstimate estimate;
  double sent = 0;
  double received = 0;
  for (const Call& call : calls) {
    const double bytes = static_cast<double>(call.count) * static_cast<double>(size_of(call.type));
    if (is_point_to_point(call.kind)) {
      (call.kind == CallKind::kSend ? sent : received) += bytes;
    } else if (is_planned(call)) {
      if (const auto plan = plans_.known(call)) {
        estimate.known_s += plan->predicted_s;
      } else {
        estimate.open.push_back(plans_.question(call));
      }
    } else {
      estimate.known_s += static_cast<double>(vector_bytes(call, size_)) / cluster.intra_rate;
    }
  }
  const double way = board_ ? cluster.intra_rate : cluster.server_rate(rank_ / placement_.gpus);
  if (sent + received > 0) estimate.known_s += cluster.alpha_s + std::max(sent, received) / way;
  return estimate;
}

void Communicator::begin_counting(const RankPlan* plan) {
  if (config_.observer == nullptr) return;
  moved_so_far_ = 0;
  to_move_ = plan != nullptr ? plan->moved_bytes : 0;
  config_.observer->on_progress({number_, 0}, to_move_, now_);
}

void Communicator::count(std::uint64_t bytes) {
  if (config_.observer == nullptr || to_move_ == 0) return;
  moved_so_far_ += bytes;
  const double share = static_cast<double>(moved_so_far_) / static_cast<double>(to_move_);
  config_.observer->on_progress({number_, static_cast<std::uint32_t>(std::min(1.0, share) * 1e6)}, to_move_, now_);
}

bool Communicator::step_running(Batch& batch) {
  bool moved = false;
  for (std::size_t i = 0; i < kStepsPerTurn && !running_->over() && running_->step();) {
    moved = true;
    i += running_->passing() ? kStepsPerTurn / kPartsPerTurn : 1;
  }
  if (running_->mismatched() && reason_until_ == kNever) on_mismatch(running_->mismatched_with());
  if (moved && running_->on_board()) got_on();
  if (!running_->over()) return moved;
  if (!running_->result()) {
    stop(running_->result().error());
    return true;
  }
  running_.reset();
  ++batch.next;
  return true;
}

void Communicator::got_on() {
  progress_ = now_;
  next_ask_ = now_ + kAskAfter;
  said_ = false;
}

void Communicator::await_plan(Turn& turn) {
  turn.merge({false, plans_.next_look()});
  if (said_) return;
  turn.merge({false, progress_ + kSayAfter});
  if (now_ < progress_ + kSayAfter) return;
  said_ = true;
  log(LogLevel::kWarn,
      fmt::format("Collective {} ({}) of rank {} waits for its plan.", number_, past_.back().text(), rank_));
}

void Communicator::ask(Turn& turn) {
  if (awaits_plan_) return await_plan(turn);
  if (!running_) return;
  if (now_ >= next_ask_) {
    next_ask_ = now_ + kAskEvery;
    const auto waiting = running_->waiting_for();
    const Bytes notice = encode({CallNotice::Kind::kAsk, number_, past_.back().signature, past_.back().text()});
    for (const std::uint32_t other : waiting) mailbox_.notify(other, notice);
    if (now_ >= progress_ + kSayAfter && !said_ && !waiting.empty()) {
      said_ = true;
      log(LogLevel::kWarn, fmt::format("Collective {} ({}) of rank {} waits for {}.", number_, past_.back().text(),
                                       rank_, mailbox_.name_of(waiting.front())));
    }
  }
  turn.merge({false, next_ask_});
}

void Communicator::peek(Turn& turn) {
  const bool waits = (running_ && running_->on_board()) || mailbox_.waits_for_neighbours();
  if (waits) turn.merge({false, now_ + std::clamp((now_ - progress_) / 8, kPeekLeast, kPeekMost)});
}

void Communicator::spin(Instant at, FunctionRef<bool(int looks)> relax) {
  if (state_ != CommState::kReady) return;
  now_ = at;
  mailbox_.begin_turn();
  if (running_ && now_ >= progress_ + kSpinMost) return;
  const std::size_t waiting = queue_.size();
  for (int looks = 0, moves = 0; looks < kLooksMost && moves < kMovesMost;) {
    if (reason_until_ != kNever || queue_.size() < waiting || queue_.empty()) return;
    if (step_batch()) {
      ++moves;
      looks = 0;
      continue;
    }
    if (!running_ || !running_->on_board() || !relax(++looks)) return;
  }
}

}  // namespace r2ccl
