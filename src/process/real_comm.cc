#include "process/real_comm.h"

#include <fmt/format.h>

#include <climits>
#include <utility>

#include "process/seed_loss.h"
#include "runtime/threads/spin.h"

namespace r2ccl {
namespace {

constexpr Duration kAbortMost = 100ms;  // to let its reason leave

}  // namespace

RealComm::RealComm(std::shared_ptr<WorldParts> world, std::shared_ptr<RankEndpoint> endpoint, const UniqueId& id,
                   std::uint32_t rank, std::uint32_t size, CommConfig config)
    : world_(std::move(world)), endpoint_(std::move(endpoint)) {
  config.plans = &endpoint_->plans;
  driver().with_engine([&](Engine& engine) {
    engine_ = &engine;
    decides_loss_ =
        world_->settings.seed_loss != SeedLoss::kNone && size > 1 && !std::exchange(endpoint_->loss_decided, true);
    const bool somebody_counts = endpoint_->stats.shown() || process().faults() != nullptr || decides_loss_;
    config.observer = somebody_counts ? this : nullptr;
    const Env env{process().clock(), process().random(), process().log()};
    communicator_ = std::make_unique<Communicator>(engine, env, world_->device, id, rank, size, config);
  });
}

RealComm::~RealComm() {
  driver().with_engine([&](Engine&) {
    invitation_.reset();
    communicator_.reset();
  });
}

std::uint32_t RealComm::rank() const {
  return communicator_->rank();
}
std::uint32_t RealComm::size() const {
  return communicator_->size();
}

void RealComm::on_progress(const Reached& reached, std::uint64_t bytes, Instant now) {
  if (waiting_loss_ && is_middle(reached, bytes)) lose(*std::exchange(waiting_loss_, {}), now);
  endpoint_->stats.on_progress(reached, now, *engine_, process().telemetry(), *communicator_);
  if (FaultProvider* const faults = process().faults()) {
    faults->on_operation(reached.operation, now);
    faults->on_bytes_moved(reached.share_ppm, now);
  }
}

// What R2CC_MODE loses.
std::optional<NicName> RealComm::on_members(const std::vector<ProcessInfo>& members, Instant now) {
  if (!decides_loss_) return std::nullopt;
  const PlannedLoss loss = plan_loss(world_->settings, members);
  if (communicator_->rank() == 0) process().log().write(LogLevel::kWarn, loss.sentence);
  if (!loss.fault) return std::nullopt;
  const bool is_here = loss.fault->server == process().self().server;
  if (world_->settings.seed_loss == SeedLoss::kInACall) {
    if (is_here) waiting_loss_ = loss.fault;
    return std::nullopt;
  }
  if (is_here) lose(*loss.fault, now);
  return NicName{loss.fault->server, loss.fault->nic};
}

void RealComm::lose(const FaultSpec& fault, Instant now) {
  const Status lost = process().faults()->inject(fault, now);
  if (!lost) process().log().write(LogLevel::kWarn, lost.error().what);
}

bool RealComm::go_on_until(const CallTicket& ticket) {
  if (!ticket.done && communicator_->may_spin()) {
    const bool crowded = communicator_->ranks_here() > processors_;
    communicator_->spin(driver().looked_at(), [&](int looks) {
      relax(crowded ? INT_MAX : looks);
      return !driver().wanted();
    });
  }
  return ticket.done;
}

CommState RealComm::state() {
  CommState state{};
  driver().with_engine([&](Engine&) { state = communicator_->state(); });
  return state;
}

Error RealComm::error() {
  Error error{Fault::kBug, ""};
  driver().with_engine([&](Engine&) { error = communicator_->error(); });
  return error;
}

Status RealComm::wait_joined() {
  const auto settled = [&](Engine&) { return communicator_->state() != CommState::kJoining; };
  if (!driver().wait_until(settled, now() + kJoinMax)) {
    return fail(Fault::kPeerDown,
                fmt::format("Not all {} ranks have joined within {:.0f} s.", size(), to_seconds(kJoinMax)));
  }
  return state() == CommState::kFailed ? std::unexpected(error()) : Status{};
}

Result<TicketPtr> RealComm::submit(std::vector<Call> calls) {
  Result<TicketPtr> ticket;
  driver().with_engine([&](Engine&) { ticket = communicator_->submit(std::move(calls)); });
  return ticket;
}

bool RealComm::done(const TicketPtr& ticket) {
  bool done = false;
  driver().with_engine([&](Engine&) { done = ticket->done; });
  return done;
}

bool RealComm::wait_for(const TicketPtr& ticket, Duration most) {
  return driver().wait_until([&](Engine&) { return go_on_until(*ticket); }, now() + most);
}

Status RealComm::wait(const TicketPtr& ticket) {
  driver().wait_until([&](Engine&) { return go_on_until(*ticket); }, kNever);
  return ticket->result;
}

// Submitting from inside the condition saves a turn of the engine, and all of them where ranks share memory.
Status RealComm::run(const Call& call) {
  Result<TicketPtr> ticket;
  const auto done = [&](Engine& engine) {
    if (ticket && *ticket) return go_on_until(**ticket);
    ticket = communicator_->submit({call});
    if (!ticket || go_on_until(**ticket)) return true;
    engine.flush(now());
    return (*ticket)->done;
  };
  driver().wait_until(done, kNever);
  return ticket ? (*ticket)->result : std::unexpected(ticket.error());
}

PlanInUse RealComm::plan_in_use() {
  PlanInUse plan;
  driver().with_engine([&](Engine&) { plan = communicator_->plan_in_use(); });
  return plan;
}

Status RealComm::finalize() {
  driver().with_engine([&](Engine&) { communicator_->finish(); });
  const auto over = [&](Engine&) {
    const CommState now = communicator_->state();
    return now == CommState::kFinished || now == CommState::kFailed;
  };
  driver().wait_until(over, kNever);
  return state() == CommState::kFailed ? std::unexpected(error()) : Status{};
}

void RealComm::abort(const std::string& why) {
  driver().with_engine([&](Engine&) { communicator_->abort(why); });
  // The process may end right after this: the reason leaves first. One turn posts what the second sends.
  int looks = 0;
  driver().wait_until([&](Engine&) { return ++looks > 2; }, now() + kAbortMost);
}

Result<double> RealComm::estimate(const std::vector<Call>& calls) {
  Result<TimeEstimate> estimate;
  driver().with_engine([&](Engine&) { estimate = communicator_->estimate(calls); });
  return estimate ? seconds_of(*estimate) : std::unexpected(estimate.error());
}

Status RealComm::invite(const std::vector<std::uint32_t>& stay, std::optional<UniqueId> id) {
  Status status;
  driver().with_engine([&](Engine&) {
    invitation_.reset();
    auto made = communicator_->invite(stay, std::move(id));
    if (made) {
      invitation_ = std::move(*made);
    } else {
      status = std::unexpected(made.error());
    }
  });
  return status;
}

Result<UniqueId> RealComm::invited() {
  Result<UniqueId> id =
      fail(Fault::kPeerDown,
           fmt::format("The first of the ranks that stay has said nothing for {:.0f} s.", to_seconds(kJoinMax)));
  const auto over = [&](Engine&) {
    if (!invitation_->over()) return false;
    if (invitation_->id()) {
      id = *invitation_->id();
    } else {
      id = fail(Fault::kPeerDown, invitation_->failure());
    }
    return true;
  };
  driver().wait_until(over, now() + kJoinMax);
  return id;
}

void RealComm::end_invitation() {
  driver().with_engine([&](Engine&) { invitation_.reset(); });
}

std::vector<NicView> RealComm::nics() {
  std::vector<NicView> views;
  driver().with_engine([&](Engine& engine) { views = nic_views(engine); });
  return views;
}

void RealComm::drain(NicId nic, bool on) {
  driver().with_engine([&](Engine& engine) { on ? engine.drain(nic, now()) : engine.undrain(nic, now()); });
}

void RealComm::inspect(FunctionRef<void(const Engine&, Telemetry&)> look) {
  driver().with_engine([&](Engine& engine) { look(engine, process().telemetry()); });
}

}  // namespace r2ccl
