#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/assert.h"
#include "sim/net/sim_process.h"

namespace r2ccl::sim {

namespace {

constexpr Duration kReadyWithin = 15s;     // rendezvous, after the last fault has healed
constexpr Duration kCompleteWithin = 12s;  // every message, after the last fault has healed
constexpr Duration kToldWithin = 4s;       // a death, beyond the peer time-out
constexpr Duration kAftermath = 300ms;     // late frames may still come
constexpr Duration kFinishWithin =
    3s;  // beyond the peer time-out: the other end may be gone before the last receipt came through
constexpr std::uint64_t kEventsMax = 3'000'000;  // a run needs thousands

// One run from rendezvous to farewell.
class ScenarioRun {
 public:
  explicit ScenarioRun(const Scenario& scenario)
      : scenario_(scenario),
        world_(scenario.seed, scenario.scheduling),
        network_(world_, scenario.network, scenario.servers(), scenario.data_nics + 1),
        referee_(scenario),
        workload_(scenario, referee_),
        board_(scenario, network_, referee_),
        driver_(world_, network_, scenario.plan, [this](const PlannedFault& fault) { on_process_fault(fault); }),
        victim_(scenario.processes) {
    world_.limit_events(kEventsMax);
    for (std::size_t i = 0; i < scenario.processes; ++i)
      processes_.push_back(std::make_unique<SimProcess>(i, scenario, world_, network_, referee_, workload_, board_));
  }

  RunReport run();

 private:
  void on_process_fault(const PlannedFault& fault);
  void start_faults();
  bool call_together();
  bool rendezvous();
  void exchange();
  void farewell();
  const CommMember* unfinished_member() const;
  bool everything_settled() const;
  Duration planned_until() const;
  bool told_of_deaths() const;
  std::size_t sessions_shared() const;
  bool dead(std::size_t process) const { return !world_.alive(processes_[process]->slot()); }

  const Scenario& scenario_;
  SimWorld world_;
  Network network_;
  Referee referee_;
  Workload workload_;
  CollectiveBoard board_;
  FaultDriver driver_;
  std::vector<std::unique_ptr<SimProcess>> processes_;
  std::vector<bool> victim_;
  Instant start_{};
};

void ScenarioRun::on_process_fault(const PlannedFault& fault) {
  const std::size_t first = scenario_.first_process(fault.nic.server);
  const std::size_t end = std::min(first + scenario_.per_server, scenario_.processes);
  if (fault.kind == SimFaultKind::kPause)
    return world_.pause(processes_[first + fault.local]->slot(), world_.now() + fault.lasts);
  for (std::size_t i = first; i < end; ++i) {
    if (fault.kind == SimFaultKind::kProcessDeath && i != first + fault.local) continue;
    victim_[i] = true;
    if (fault.kind == SimFaultKind::kPartition) continue;
    world_.kill(processes_[i]->slot());
    if (fault.kind == SimFaultKind::kProcessDeath) network_.drop_process(processes_[i]->dialer(), fault.amount > 0);
    workload_.on_process_dead(i);
  }
}

void ScenarioRun::start_faults() {
  driver_.start();
  for (const auto& process : processes_) process->set_fault_driver(&driver_);
}

// The processes of a run of messages meet by one id; communicators make their own.
bool ScenarioRun::call_together() {
  for (const auto& process : processes_) process->listen();
  if (scenario_.collectives) return true;
  const auto id = processes_[0]->host_root();
  if (!id) referee_.violation("root: " + id.error().what);
  if (!id) return false;
  for (const auto& process : processes_) process->join(*id);
  return true;
}

bool ScenarioRun::rendezvous() {
  std::vector<ProcessId> ids;
  for (const auto& process : processes_) ids.push_back(process->id());
  for (const auto& process : processes_) process->set_peers(ids);
  if (!call_together()) return false;
  for (const auto& process : processes_) {
    process->set_on_turn([this] {
      const bool ready = std::ranges::all_of(processes_, [](const auto& one) { return one->ready(); });
      if (ready || !referee_.violations().empty()) world_.stop();
    });
  }
  if (scenario_.early_faults) start_faults();
  const Duration faults = scenario_.early_faults ? scenario_.plan.quiet_by() : Duration{};
  if (!world_.run_until(world_.now() + kReadyWithin + faults)) return referee_.violations().empty();
  referee_.violation("the processes did not find each other in time");
  return false;
}

bool ScenarioRun::told_of_deaths() const {
  if (scenario_.collectives) return true;  // a communicator that fails says so
  for (std::size_t i = 0; i < victim_.size(); ++i) {
    for (std::size_t j = 0; j < victim_.size(); ++j) {
      if (i != j && (victim_[i] || victim_[j]) && !dead(i) && !referee_.peer_down(i, j)) return false;
    }
  }
  return true;
}

// A member that lives and has something to wait for; null: none.
const CommMember* ScenarioRun::unfinished_member() const {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (dead(i)) continue;
    for (const auto& member : processes_[i]->members()) {
      if (!member->over()) return member.get();
    }
  }
  return nullptr;
}

bool ScenarioRun::everything_settled() const {
  if (!workload_.settled() || unfinished_member() != nullptr) return false;
  if (!scenario_.plan.lethal()) return true;
  return std::ranges::count(victim_, true) != 0 && told_of_deaths();
}

// When the last thing that is planned has begun or healed.
Duration ScenarioRun::planned_until() const {
  Duration last = scenario_.plan.quiet_by();
  for (const PlannedMessage& message : scenario_.messages) last = std::max({last, message.send_at, message.receive_at});
  for (const PlannedAction& action : scenario_.actions) last = std::max(last, action.at);
  if (!scenario_.collectives) return last;
  for (const PlannedCommunicator& communicator : scenario_.collectives->communicators) {
    last = std::max(last, communicator.create_at);
    for (const PlannedBatch& batch : communicator.batches) last = std::max(last, std::ranges::max(batch.due));
  }
  return scenario_.collectives->until_healed ? last + kHealWithin : last;
}

void ScenarioRun::exchange() {
  start_ = world_.now();
  if (!scenario_.early_faults) start_faults();
  for (const auto& process : processes_) {
    process->begin(start_);
    process->set_on_turn([this] {
      if (everything_settled() || !referee_.violations().empty()) world_.stop();
    });
    world_.wake(process->slot());
  }
  const Duration patience =
      scenario_.plan.lethal() ? scenario_.session.limits.peer_timeout + kToldWithin : kCompleteWithin;
  world_.run_until(start_ + planned_until() + patience);
  if (!everything_settled()) {
    if (!told_of_deaths()) referee_.violation("somebody was not told of a peer's death in time");
    if (!workload_.settled())
      referee_.violation(fmt::format("{} operations did not end in time", workload_.unsettled()));
    if (const CommMember* member = unfinished_member()) referee_.violation(member->unfinished());
  }
  for (std::size_t i = 0; i < victim_.size(); ++i) {
    for (std::size_t j = 0; j < victim_.size(); ++j) {
      if (i != j && !victim_[i] && !victim_[j] && !processes_[j]->leaving() && referee_.peer_down(i, j))
        referee_.violation(fmt::format("process {} was told that {} is gone, which is not true", i, j));
    }
  }
  for (const auto& process : processes_) process->set_on_turn({});
  if (referee_.violations().empty()) world_.run_until(world_.now() + kAftermath);
}

void ScenarioRun::farewell() {
  for (std::size_t i = 0; i < processes_.size(); ++i) referee_.on_leave(i);
  if (!scenario_.finish || !referee_.violations().empty()) return;
  const auto all_finished = [this] {
    for (std::size_t i = 0; i < processes_.size(); ++i)
      if (!dead(i) && !processes_[i]->finished()) return false;
    return true;
  };
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (dead(i)) continue;
    processes_[i]->finish(world_.now());
    processes_[i]->set_on_turn([this, all_finished] {
      if (all_finished()) world_.stop();
    });
  }
  world_.run_until(world_.now() + scenario_.session.limits.peer_timeout + kFinishWithin + scenario_.plan.quiet_by());
  if (!all_finished()) referee_.violation("finish did not end in time");
}

std::size_t ScenarioRun::sessions_shared() const {
  if (!scenario_.collectives) return 0;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> users;  // communicators, by the two ends of a session
  for (std::size_t i = 0; i < scenario_.collectives->communicators.size(); ++i) {
    if (!board_.has_run(i)) continue;
    for (const std::uint8_t one : scenario_.collectives->communicators[i].process) {
      for (const std::uint8_t other : scenario_.collectives->communicators[i].process) {
        const bool meet = one < other && processes_[one]->engine().find_session(processes_[other]->id()) != nullptr;
        if (meet) ++users[{one, other}];
      }
    }
  }
  return static_cast<std::size_t>(std::ranges::count_if(users, [](const auto& entry) { return entry.second > 1; }));
}

RunReport ScenarioRun::run() {
  try {
    if (rendezvous()) {
      exchange();
      farewell();
      workload_.check_end();
      for (const auto& process : processes_) {
        for (const auto& member : process->members()) member->check_end();
      }
    }
  } catch (const Bug& bug) {
    referee_.violation(std::string("bug: ") + bug.what());
  }
  if (world_.exhausted()) referee_.violation(fmt::format("the run took more than {} events", kEventsMax));
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (world_.spins(processes_[i]->slot()))
      referee_.violation(fmt::format("process {} spins: it asks to be stepped at once, in vain", i));
  }
  RunReport report;
  report.violations = referee_.violations();
  report.ok = report.violations.empty();
  report.digest = world_.digest();
  report.events = world_.events_handled();
  report.faults = driver_.faults_begun();
  report.repairs = referee_.fences();
  for (const auto& process : processes_) {
    report.replayed_bytes += process->counters().replayed_bytes;
    report.hedged_bytes += process->counters().hedged_bytes;
    report.resent_bytes += process->counters().resent_bytes;
    report.left_amid_faults += process->left_amid_faults() ? 1 : 0;
  }
  report.collectives = board_.collectives();
  report.maps = board_.maps();
  report.regroups = board_.regroups();
  report.sessions_shared = sessions_shared();
  report.simulated = world_.now() - start_;
  return report;
}

}  // namespace

RunReport run_scenario(const Scenario& scenario) {
  ScenarioRun run(scenario);
  return run.run();
}

}  // namespace r2ccl::sim
