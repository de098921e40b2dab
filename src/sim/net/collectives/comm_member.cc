#include "sim/net/collectives/comm_member.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "device/cpu/cpu_device.h"

namespace r2ccl::sim {
namespace {

constexpr Duration kIdPoll = 1ms;
constexpr Duration kRegroupPoll = 20ms;
const CpuDevice kDevice;

}  // namespace

CommMember::CommMember(const Scenario& scenario, std::size_t communicator, std::uint32_t rank, CollectiveBoard& board,
                       Referee& referee, const std::vector<ProcessId>& ids)
    : scenario_(scenario),
      index_(communicator),
      rank_(rank),
      board_(board),
      referee_(referee),
      ids_(ids),
      batches_(planned().batches.size()) {
  if (index_ == 0 && scenario.collectives->until_healed) ++batches_;
}

void CommMember::complain(const std::string& what) {
  referee_.violation(fmt::format("communicator {} rank {}: {}", index_, rank_, what));
}

Turn CommMember::step(Engine& engine, Env env, Instant start, Instant now) {
  Turn turn;
  if (destroyed_) return turn;
  if (!communicator_ && !create_due(engine, env, start, now, turn)) return turn;
  const PlanInUse& plan = communicator_->plan_in_use();
  if (plan.operation != operation_) {
    if (plan.operation != operation_ + 1) complain(fmt::format("collective {} follows {}", plan.operation, operation_));
    operation_ = plan.operation;
    trace_ = mix64(trace_ ^ plan.operation << 32 ^ plan.health_version);
    board_.on_begun(index_, rank_, plan, *communicator_->health_map());
  }
  turn.moved |= take_done(start, now);
  if (state() == CommState::kFailed && !std::exchange(error_seen_, true)) {
    check_error(communicator_->error());
    board_.on_failed(index_, rank_);
  }
  if (state() == CommState::kFailed && !met_again_) {
    if (meets_again()) turn.moved |= meet_again(engine);
    turn.merge({false, now + kRegroupPoll});
  }
  if (start != kNever && state() == CommState::kReady) turn.moved |= submit_due(start, now, turn);
  if (state() == CommState::kReady && all_done() && planned().finish) {
    communicator_->finish();
    turn.moved = true;
  }
  return turn;
}

bool CommMember::create_due(Engine& engine, Env env, Instant start, Instant now, Turn& turn) {
  const Duration at = planned().create_at;
  const Instant when = at == Duration{} ? now : start == kNever ? kNever : start + at;
  if (now < when) {
    turn.merge({false, when});
    return false;
  }
  std::optional<UniqueId>& id = board_.id(index_);
  if (!id && rank_ != 0) {
    turn.merge({false, now + kIdPoll});
    return false;
  }
  if (!id) {
    auto made = engine.host_at({.nic = scenario_.management_nic()}, 0);
    if (!made) complain("no id: " + made.error().what);
    if (!made) return false;
    id = *made;
  }
  communicator_ = std::make_unique<Communicator>(engine, env, kDevice, *id, rank_, planned().size(), planned().config);
  turn.moved = true;
  return true;
}

Instant CommMember::healed_from(Instant start) const {
  Duration last = scenario_.plan.quiet_by();
  for (const PlannedAction& action : scenario_.actions) last = std::max(last, action.at);
  return start + last;
}

bool CommMember::submit_due(Instant start, Instant now, Turn& turn) {
  bool moved = false;
  const std::size_t planned_batches = planned().batches.size();
  while (next_ < batches_ && pending_.size() < planned().depth) {
    const PlannedBatch& batch = batch_of(planned(), next_);
    Instant due = start;
    if (next_ < planned_batches) {
      due += batch.due[rank_];
    } else if (!pending_.empty()) {
      return moved;
    } else {
      due = healed_from(start) + (next_ - planned_batches) * kHealingPause;
    }
    if (now < due) {
      turn.merge({false, due});
      return moved;
    }
    submit(next_++);
    moved = true;
  }
  return moved;
}

void CommMember::submit(std::size_t index) {
  const PlannedBatch& batch = batch_of(planned(), index);
  Submitted submitted{.batch = index, .ticket = nullptr, .held = {}};
  std::vector<Call> calls;
  const auto add_calls = [&] {
    for (std::size_t i = 0; i < batch.calls.size(); ++i) calls.push_back(hold(index, i, submitted));
  };
  const auto add_transfers = [&](bool receive) {
    for (std::size_t i = 0; i < batch.transfers.size(); ++i) {
      const PlannedTransfer& one = batch.transfers[i];
      if ((receive ? one.to : one.from) == rank_) calls.push_back(hold_transfer(index, i, receive, submitted));
    }
  };
  // Within a group the order of sends, receives and collectives differs from rank to rank.
  const std::uint64_t order = board_.name_of(index_, index, 0xffff) >> rank_;
  if ((order & 1) != 0) add_calls();
  add_transfers((order & 2) != 0);
  add_transfers((order & 2) == 0);
  if ((order & 1) == 0) add_calls();
  if (calls.empty()) return;
  for (const Call& call : calls) {
    if (const Status valid = validate(call, rank_, planned().size()); !valid) complain(valid.error().what);
  }
  auto ticket = communicator_->submit(std::move(calls));
  if (!ticket) return complain("submit: " + ticket.error().what);
  submitted.ticket = *ticket;
  pending_.push_back(std::move(submitted));
}

Call CommMember::hold(std::size_t batch, std::size_t index, Submitted& into) {
  const PlannedCall& call = batch_of(planned(), batch).calls[index];
  const CallLayout layout = layout_of(call, rank_, planned().size());
  const Bytes& input = board_.input(index_, batch, index, rank_);
  const auto make = [&](std::size_t bytes, std::size_t at, const Bytes& content) {
    auto memory = std::make_unique<UserMemory>(bytes, true);
    std::ranges::copy(content, memory->bytes().begin() + static_cast<std::ptrdiff_t>(at));
    memory->begin();
    Bytes before(memory->bytes().begin(), memory->bytes().end());
    into.held.push_back({std::move(memory), std::move(before), 0, {}});
    return into.held.back().memory->bytes().data();
  };
  Call out{.kind = call.kind, .count = call.count, .type = call.type, .op = {call.op, 0}, .peer = call.root};
  if (call.op == ReduceName::kPreMulSum) out.op.scalar = scalar_of(board_.name_of(index_, batch, index), rank_);
  if (layout.shared) {
    std::byte* const both = make(layout.shared_bytes(), layout.input_at, input);
    out.input = both + layout.input_at;
    out.output = both + layout.output_at;
  } else {
    if (layout.input_bytes > 0) out.input = make(layout.input_bytes, 0, input);
    if (layout.output_bytes > 0) out.output = make(layout.output_bytes, 0, {});
  }
  Bytes output = board_.take_output(index_, batch, index, rank_);
  if (output.empty()) return out;
  into.held.back().output_at = layout.output_at;
  into.held.back().output = std::move(output);
  return out;
}

Call CommMember::hold_transfer(std::size_t batch, std::size_t index, bool receive, Submitted& into) {
  const PlannedTransfer& transfer = batch_of(planned(), batch).transfers[index];
  Bytes content = board_.transfer(index_, batch, index);
  auto memory = std::make_unique<UserMemory>(transfer.bytes, true);
  if (!receive) std::ranges::copy(content, memory->bytes().begin());
  memory->begin();
  std::byte* const data = memory->bytes().data();
  Call call{.kind = receive ? CallKind::kRecv : CallKind::kSend, .count = transfer.bytes, .type = DataType::kUint8};
  call.peer = receive ? transfer.from : transfer.to;
  if (receive) call.output = data;
  if (!receive) call.input = data;
  Bytes before(memory->bytes().begin(), memory->bytes().end());
  into.held.push_back({std::move(memory), std::move(before), 0, receive ? std::move(content) : Bytes{}});
  return call;
}

bool CommMember::take_done(Instant start, Instant now) {
  bool any = false;
  for (; !pending_.empty() && pending_.front().ticket->done; any = true) {
    Submitted submitted = std::move(pending_.front());
    pending_.pop_front();
    settle(submitted);
    if (submitted.batch >= planned().batches.size() && submitted.ticket->result) look_at_map(start, now);
  }
  for (const Submitted& later : pending_) {
    if (later.ticket->done)
      complain(fmt::format("batch {} ended before batch {}", later.batch, pending_.front().batch));
  }
  return any;
}

void CommMember::settle(Submitted& submitted) {
  const bool ok = submitted.ticket->result.has_value();
  trace_ = mix64(trace_ ^ submitted.batch << 1 ^ (ok ? 1 : 0));
  for (Held& held : submitted.held) {
    if (ok) std::ranges::copy(held.output, held.before.begin() + static_cast<std::ptrdiff_t>(held.output_at));
    const auto bytes = held.memory->bytes();
    const auto wrong = std::ranges::mismatch(bytes, held.before).in1;
    if ((ok || held.output.empty()) && wrong != bytes.end()) {
      complain(fmt::format("batch {}: byte {} of {} is wrong in a buffer that {}", submitted.batch,
                           wrong - bytes.begin(), bytes.size(), held.output.empty() ? "is only read" : "is written"));
    }
    if (!held.memory->untouched_after(bytes.size())) complain("bytes beside a buffer were written");
    held.memory->end();
    used_.push_back(std::move(held.memory));
  }
  if (ok && rank_ == 0)
    for (std::size_t i = batch_of(planned(), submitted.batch).calls.size(); i > 0; --i) board_.count_collective();
  if (!ok && communicator_->state() != CommState::kFailed) complain("a ticket failed and the communicator did not");
}

// Every rank sees the same map for the same collective, so all go on or none does.
void CommMember::look_at_map(Instant start, Instant now) {
  const std::string wrong = board_.wrong_about(index_, *communicator_->health_map(), ids_);
  if (wrong.empty()) return;
  ++batches_;
  if (now > healed_from(start) + kHealWithin) complain("the map does not get right: " + wrong);
}

void CommMember::check_error(const Error& error) {
  const bool aborts = scenario_.aborts(static_cast<std::uint8_t>(index_));
  const bool lethal = scenario_.plan.lethal();
  const bool allowed = (error.fault == Fault::kAborted && aborts) || (error.fault == Fault::kPeerDown && lethal) ||
                       (error.fault == Fault::kAborted && lethal);
  if (!allowed) return complain(fmt::format("failed ({}): {}", to_text(error.fault), error.what));
  if (!aborted_ && error.what.find("rank ") == std::string::npos) complain("the error names nobody: " + error.what);
  if (!aborts && !names_the_dead(error.what)) complain("the error does not name who died: " + error.what);
}

// Whether the error names a rank that died, or one that passed it on where that is all that came through. After a
// partition any name is right, because each side says that the other is gone.
bool CommMember::names_the_dead(const std::string& what) const {
  if (what.find("has ended the communicator") != std::string::npos) return true;
  for (const PlannedFault& fault : scenario_.plan.faults) {
    if (fault.kind == SimFaultKind::kPartition) return true;
  }
  for (std::uint32_t rank = 0; rank < planned().size(); ++rank) {
    if (dies(rank) && what.find(fmt::format("rank {} (", rank)) != std::string::npos) return true;
  }
  return false;
}

// Whether the plan kills the rank's process.
bool CommMember::dies(std::uint32_t rank) const {
  const std::size_t process = planned().process[rank];
  return std::ranges::any_of(scenario_.plan.faults, [&](const PlannedFault& fault) {
    const std::size_t local = std::size_t{scenario_.first_process(fault.nic.server)} + fault.local;
    return scenario_.server_of(process) == fault.nic.server &&
           (fault.kind == SimFaultKind::kServerDeath ||
            (fault.kind == SimFaultKind::kProcessDeath && process == local));
  });
}

std::vector<std::uint32_t> CommMember::survivors() const {
  std::vector<std::uint32_t> alive;
  for (std::uint32_t rank = 0; rank < planned().size(); ++rank)
    if (!dies(rank)) alive.push_back(rank);
  return alive;
}

// Some may have finished before the others failed; these then have nobody to meet. Communicators made under way may
// never have known their members.
bool CommMember::meets_again() const {
  const bool apart = std::ranges::any_of(
      scenario_.plan.faults, [](const PlannedFault& fault) { return fault.kind == SimFaultKind::kPartition; });
  return !apart && planned().create_at == Duration{} && !dies(rank_) && board_.all_failed(index_, survivors());
}

bool CommMember::meet_again(Engine& engine) {
  const std::vector<std::uint32_t> alive = survivors();
  if (!invitation_) {
    std::optional<UniqueId> id;
    if (rank_ == alive.front()) id = engine.host(0).value();
    auto made = communicator_->invite(alive, std::move(id));
    if (!made) complain("invite: " + made.error().what);
    met_again_ = !made;
    if (made) invitation_ = std::move(*made);
    return true;
  }
  if (!invitation_->over()) return false;
  met_again_ = true;
  if (!invitation_->id()) {
    complain("did not hear where to meet again: " + invitation_->failure());
  } else if (!board_.on_invited(index_, *invitation_->id())) {
    complain("heard of another id than the others");
  }
  return true;
}

void CommMember::abort() {
  if (!communicator_ || state() == CommState::kFinished || state() == CommState::kFailed) return;
  aborted_ = true;
  communicator_->abort(fmt::format("The application of rank {} was told to abort.", rank_));
  take_done(kNever, kNever);
  if (!pending_.empty()) complain("a ticket was still open after abort");
}

void CommMember::destroy() {
  invitation_.reset();
  communicator_.reset();
  destroyed_ = true;
}

bool CommMember::over() const {
  if (!communicator_) return false;
  // Whoever has met the others again stays until they all have: the first has to answer them.
  if (state() == CommState::kFailed && meets_again() && board_.invited(index_) < survivors().size()) return false;
  if (state() == CommState::kFailed || state() == CommState::kFinished) return pending_.empty();
  const bool must_fail = scenario_.plan.lethal() || scenario_.aborts(static_cast<std::uint8_t>(index_));
  return all_done() && !planned().finish && !must_fail;
}

std::string CommMember::unfinished() const {
  if (!communicator_) return "was never made";
  if (state() == CommState::kFailed && meets_again()) {
    return fmt::format(
        "communicator {} rank {} {}", index_, rank_,
        met_again_ ? "waits for ranks that have not heard where to meet again" : "has not heard where to meet again");
  }
  return fmt::format(
      "communicator {} rank {} is in state {} with {} batches open and {} to come; it waits for ranks {}", index_,
      rank_, static_cast<int>(state()), pending_.size(), batches_ - next_,
      fmt::join(communicator_->waiting_for(), ", "));
}

void CommMember::check_end() {
  for (const auto& memory : used_) {
    if (const std::string complaint = memory->complaint(); !complaint.empty()) complain(complaint);
    if (!memory->untouched_after(memory->bytes().size())) complain("bytes beside a buffer were written after the end");
  }
}

}  // namespace r2ccl::sim
