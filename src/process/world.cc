#include "process/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <map>
#include <mutex>
#include <utility>

#include "base/assert.h"
#include "comm/agreement/nic_views.h"
#include "comm/agreement/plans.h"
#include "device/cpu/cpu_device.h"
#include "env/secret.h"
#include "process/seed_loss.h"
#include "process/stats.h"
#include "process/worker_plans.h"
#include "runtime/threads/process.h"
#include "runtime/threads/spin.h"
#include "runtime/threads/worker.h"

namespace r2ccl {
namespace {

constexpr Duration kAbortMost = 100ms;  // to let its reason leave

// A key for places that everybody knows: whoever can reach them may join, unless a secret was set.
Secret secret_of(const std::string& text) {
  return keyed_proof(Secret{}, std::as_bytes(std::span(text)));
}

// Its communicators go before it does, and they before the engine.
struct RankEndpoint {
  std::unique_ptr<Process> process;
  StatsWriter stats;
  WorkerPlans plans;
  bool loss_decided = false;  // comm/seed_loss.h; with the engine held
};

}  // namespace

// What communicators of a process share; it goes with the last of them.
struct World::Impl {
  Impl(const Settings& values, std::optional<MeetingPlace> meeting_place)
      : settings(values), place(std::move(meeting_place)) {}

  const Settings settings;
  const std::optional<MeetingPlace> place;
  const CpuDevice device;
  std::mutex mutex;  // guards what follows
  std::vector<std::shared_ptr<RankEndpoint>> endpoints;
  std::map<Secret, std::uint32_t> local_ranks;  // that joined so far, by job
  Worker worker;  // makes plans; the last member, because what it does wakes drivers of endpoints

  Result<std::shared_ptr<RankEndpoint>> endpoint(std::size_t number) {
    const std::lock_guard lock(mutex);
    while (endpoints.size() <= number) {
      auto made = Process::create(settings, {.place = place});
      if (!made) return std::unexpected(made.error());
      Log& log = (*made)->log();
      Driver& driver = (*made)->driver();
      endpoints.push_back(std::make_shared<RankEndpoint>(std::move(*made), StatsWriter(settings, endpoints.size(), log),
                                                         WorkerPlans(worker, [&driver] { driver.nudge(); })));
    }
    return endpoints[number];
  }

  // The id of the place, as this process knows it.
  UniqueId placed_id() const {
    UniqueId id;
    id.secret = secret_of(fmt::format("{}:{}", settings.secret, place->addresses.front().port));
    id.root = id.place = place->addresses;
    if (id.root.size() > UniqueId::kAddressesMax) id.root.resize(UniqueId::kAddressesMax);
    return id;
  }
};

struct Comm::Impl {
  std::shared_ptr<World::Impl> world;
  std::shared_ptr<RankEndpoint> endpoint;
  std::unique_ptr<Communicator> communicator;  // touched with the engine held only, and so is
  std::unique_ptr<Invitation> invitation;

  std::optional<FaultSpec> waiting_loss;  // for the middle of a call

  Process& process() { return *endpoint->process; }
  Driver& driver() { return process().driver(); }
  Instant now() { return process().clock().now(); }
  void on_progress(Engine& engine, const Reached& reached, std::uint64_t bytes, Instant now) {
    if (waiting_loss && is_middle(reached, bytes)) lose(*std::exchange(waiting_loss, {}), now);
    endpoint->stats.on_progress(reached, now, engine, process().telemetry(), *communicator);
    if (FaultProvider* const faults = process().faults()) {
      faults->on_operation(reached.operation, now);
      faults->on_bytes_moved(reached.share_ppm, now);
    }
  }
  // What R2CC_MODE loses; the answer as CommConfig::on_members has it.
  std::optional<NicName> on_members(const std::vector<ProcessInfo>& members, Instant now) {
    const PlannedLoss loss = plan_loss(world->settings, members);
    if (communicator->rank() == 0) process().log().write(LogLevel::kWarn, loss.sentence);
    if (!loss.fault) return std::nullopt;
    const bool is_here = loss.fault->server == process().self().server;
    if (world->settings.seed_loss == SeedLoss::kInACall) {
      if (is_here) waiting_loss = loss.fault;
      return std::nullopt;
    }
    if (is_here) lose(*loss.fault, now);
    return NicName{loss.fault->server, loss.fault->nic};
  }
  void lose(const FaultSpec& fault, Instant now) {
    const Status lost = process().faults()->inject(fault, now);
    if (!lost) process().log().write(LogLevel::kWarn, lost.error().what);
  }
  // With the engine held: hurries, if the ticket needs it.
  bool done(const CallTicket& ticket) {
    if (!ticket.done && communicator->may_spin()) {
      const bool crowded = communicator->ranks_here() > processors_here;
      communicator->spin(driver().looked_at(), [&](int looks) {
        relax(crowded ? INT_MAX : looks);
        return !driver().wanted();
      });
    }
    return ticket.done;
  }
  const unsigned processors_here = processors();
};

Comm::Comm(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Comm::~Comm() {
  impl_->driver().with_engine([&](Engine&) {
    impl_->invitation.reset();
    impl_->communicator.reset();
  });
}

std::uint32_t Comm::rank() const {
  return impl_->communicator->rank();
}
std::uint32_t Comm::size() const {
  return impl_->communicator->size();
}

CommState Comm::state() {
  CommState state{};
  impl_->driver().with_engine([&](Engine&) { state = impl_->communicator->state(); });
  return state;
}

Error Comm::error() {
  Error error{Fault::kBug, ""};
  impl_->driver().with_engine([&](Engine&) { error = impl_->communicator->error(); });
  return error;
}

Status Comm::wait_joined() {
  const auto settled = [&](Engine&) { return impl_->communicator->state() != CommState::kJoining; };
  if (!impl_->driver().wait_until(settled, impl_->now() + World::kJoinMax)) {
    return fail(Fault::kPeerDown,
                fmt::format("Not all {} ranks have joined within {:.0f} s.", size(), to_seconds(World::kJoinMax)));
  }
  return state() == CommState::kFailed ? std::unexpected(error()) : Status{};
}

Result<TicketPtr> Comm::submit(std::vector<Call> calls) {
  for (const Call& call : calls) {
    if (const Status status = validate(call, rank(), size()); !status) return std::unexpected(status.error());
  }
  Result<TicketPtr> ticket;
  impl_->driver().with_engine([&](Engine&) { ticket = impl_->communicator->submit(std::move(calls)); });
  return ticket;
}

bool Comm::done(const TicketPtr& ticket) {
  bool done = false;
  impl_->driver().with_engine([&](Engine&) { done = ticket->done; });
  return done;
}

bool Comm::wait_for(const TicketPtr& ticket, Duration most) {
  return impl_->driver().wait_until([&](Engine&) { return impl_->done(*ticket); }, impl_->now() + most);
}

Status Comm::wait(const TicketPtr& ticket) {
  impl_->driver().wait_until([&](Engine&) { return impl_->done(*ticket); }, kNever);
  return ticket->result;
}

// Submitting from inside the condition saves a turn of the engine, and all of them where ranks share memory.
Status Comm::run(const Call& call) {
  if (const Status status = validate(call, rank(), size()); !status) return status;
  Result<TicketPtr> ticket;
  const auto done = [&](Engine& engine) {
    if (ticket && *ticket) return impl_->done(**ticket);
    ticket = impl_->communicator->submit({call});
    if (!ticket || impl_->done(**ticket)) return true;
    engine.flush(impl_->now());
    return (*ticket)->done;
  };
  impl_->driver().wait_until(std::ref(done), kNever);  // by reference: a copy would need memory of its own
  return ticket ? (*ticket)->result : std::unexpected(ticket.error());
}

PlanInUse Comm::plan_in_use() {
  PlanInUse plan;
  impl_->driver().with_engine([&](Engine&) { plan = impl_->communicator->plan_in_use(); });
  return plan;
}

Status Comm::finalize() {
  impl_->driver().with_engine([&](Engine&) { impl_->communicator->finish(); });
  const auto over = [&](Engine&) {
    const CommState now = impl_->communicator->state();
    return now == CommState::kFinished || now == CommState::kFailed;
  };
  impl_->driver().wait_until(over, kNever);
  return state() == CommState::kFailed ? std::unexpected(error()) : Status{};
}

void Comm::abort(const std::string& why) {
  impl_->driver().with_engine([&](Engine&) { impl_->communicator->abort(why); });
  // The process may end right after this: the reason leaves first. One turn posts what the second sends.
  int looks = 0;
  impl_->driver().wait_until([&](Engine&) { return ++looks > 2; }, impl_->now() + kAbortMost);
}

Result<double> Comm::estimate(const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    if (const Status status = validate(call, rank(), size()); !status) return std::unexpected(status.error());
  }
  Result<TimeEstimate> estimate;
  impl_->driver().with_engine([&](Engine&) { estimate = impl_->communicator->estimate(calls); });
  return estimate ? seconds_of(*estimate) : std::unexpected(estimate.error());
}

Status Comm::invite(const std::vector<std::uint32_t>& stay, std::optional<UniqueId> id) {
  Status status;
  impl_->driver().with_engine([&](Engine&) {
    impl_->invitation.reset();
    auto made = impl_->communicator->invite(stay, std::move(id));
    if (made)
      impl_->invitation = std::move(*made);
    else
      status = std::unexpected(made.error());
  });
  return status;
}

Result<UniqueId> Comm::invited() {
  Result<UniqueId> id =
      fail(Fault::kPeerDown,
           fmt::format("The first of the ranks that stay has said nothing for {:.0f} s.", to_seconds(World::kJoinMax)));
  const auto over = [&](Engine&) {
    if (!impl_->invitation->over()) return false;
    if (impl_->invitation->id())
      id = *impl_->invitation->id();
    else
      id = fail(Fault::kPeerDown, impl_->invitation->failure());
    return true;
  };
  impl_->driver().wait_until(over, impl_->now() + World::kJoinMax);
  return id;
}

void Comm::end_invitation() {
  impl_->driver().with_engine([&](Engine&) { impl_->invitation.reset(); });
}

std::vector<NicView> Comm::nics() {
  std::vector<NicView> views;
  impl_->driver().with_engine([&](Engine& engine) { views = nic_views(engine); });
  return views;
}

void Comm::drain(NicId nic, bool on) {
  impl_->driver().with_engine(
      [&](Engine& engine) { on ? engine.drain(nic, impl_->now()) : engine.undrain(nic, impl_->now()); });
}

void Comm::inspect(const std::function<void(const Engine&, Telemetry&)>& look) {
  impl_->driver().with_engine([&](Engine& engine) { look(engine, impl_->process().telemetry()); });
}

World::World(const Settings& settings, std::optional<MeetingPlace> place)
    : impl_(std::make_shared<Impl>(settings, std::move(place))) {}
World::~World() = default;

const Settings& World::settings() const {
  return impl_->settings;
}

Result<UniqueId> World::make_id() {
  auto endpoint = impl_->endpoint(0);
  if (!endpoint) return std::unexpected(endpoint.error());
  Result<UniqueId> id = fail(Fault::kBug, "not asked yet");
  (*endpoint)->process->driver().with_engine([&](Engine& engine) { id = engine.host(0); });
  return id;
}

Result<UniqueId> World::fixed_id(bool host) {
  R2CCL_ASSERT(impl_->place.has_value(), "a fixed id needs a place");
  UniqueId id = impl_->placed_id();
  if (!host) return id;
  auto endpoint = impl_->endpoint(0);
  if (!endpoint) return std::unexpected(endpoint.error());
  Process& process = *(*endpoint)->process;
  if (impl_->settings.secret.empty()) {
    process.log().write(LogLevel::kWarn,
                        fmt::format("The job at {} has no secret: whoever reaches it may join. Set R2CCL_SECRET.",
                                    to_text(id.root.front())));
  }
  if (const auto hosted = process.host_at_place(id.secret); !hosted) return std::unexpected(hosted.error());
  return id;
}

Result<std::shared_ptr<Comm>> World::join(const UniqueId& id, std::uint32_t rank, std::uint32_t size,
                                          const CommConfig& config) {
  if (size == 0 || rank >= size)
    return fail(Fault::kMisuse, fmt::format("Rank {} is not one of {} ranks.", rank, size));
  CommConfig whole = config;
  if (whole.mode.empty()) whole.mode = impl_->settings.mode;
  if (whole.algorithm.empty()) whole.algorithm = impl_->settings.algorithm;
  whole.shared_memory = impl_->settings.shared_memory;
  whole.fabric = impl_->settings.fabric == "rails" ? Fabric::kRails : Fabric::kRouted;
  if (const auto mode = mode_of(whole.mode); !mode) return std::unexpected(mode.error());
  std::uint32_t local = 0;
  {
    const std::lock_guard lock(impl_->mutex);
    local = impl_->local_ranks[id.secret]++;
  }
  auto endpoint = impl_->endpoint(local);
  if (!endpoint) return std::unexpected(endpoint.error());
  UniqueId known = id;
  if (impl_->place && impl_->placed_id().secret == id.secret) known = impl_->placed_id();
  auto comm = std::make_unique<Comm::Impl>(impl_, *endpoint);
  Process& process = comm->process();
  whole.plans = &comm->endpoint->plans;
  process.driver().with_engine([&](Engine& engine) {
    whole.on_progress = [impl = comm.get(), &engine](const Reached& reached, std::uint64_t bytes, Instant now) {
      impl->on_progress(engine, reached, bytes, now);
    };
    if (impl_->settings.seed_loss != SeedLoss::kNone && size > 1 &&
        !std::exchange(comm->endpoint->loss_decided, true)) {
      whole.on_members = [impl = comm.get()](const std::vector<ProcessInfo>& members, Instant now) {
        return impl->on_members(members, now);
      };
    }
    comm->communicator = std::make_unique<Communicator>(engine, Env{process.clock(), process.random(), process.log()},
                                                        impl_->device, known, rank, size, whole);
  });
  return std::shared_ptr<Comm>(new Comm(std::move(comm)));
}

Status wait_all(std::span<const Waiting> waiting) {
  constexpr Duration kTurn =
      100us;  // each endpoint is driven by its own thread, too; this one only must not sleep on one of them
  if (waiting.size() == 1) return waiting[0].comm->wait(waiting[0].ticket);
  for (bool open = true; open;) {
    open = false;
    for (const Waiting& one : waiting) open |= !one.comm->wait_for(one.ticket, kTurn);
  }
  for (const Waiting& one : waiting) {
    if (!one.ticket->result) return one.ticket->result;
  }
  return {};
}

}  // namespace r2ccl
