#include <fmt/format.h>

#include <algorithm>

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
class Run {
 public:
  explicit Run(const Scenario& scenario)
      : scenario_(scenario),
        world_(scenario.seed, scenario.scheduling),
        network_(world_, scenario.network, scenario.processes, scenario.data_nics + 1),
        referee_(scenario),
        workload_(scenario, referee_),
        driver_(world_, network_, scenario.plan, [this](const PlannedFault& fault) { on_process_fault(fault); }),
        victim_(scenario.processes) {
    world_.limit_events(kEventsMax);
    for (std::size_t i = 0; i < scenario.processes; ++i)
      processes_.push_back(std::make_unique<SimProcess>(i, scenario, world_, network_, referee_, workload_));
  }

  RunReport run();

 private:
  void on_process_fault(const PlannedFault& fault);
  void start_faults();
  bool rendezvous();
  void exchange();
  void farewell();
  bool everything_settled() const;
  bool told_of_deaths() const;
  bool dead(std::size_t process) const { return !world_.alive(processes_[process]->slot()); }

  const Scenario& scenario_;
  World world_;
  Network network_;
  Referee referee_;
  Workload workload_;
  FaultDriver driver_;
  std::vector<std::unique_ptr<SimProcess>> processes_;
  std::vector<bool> victim_;
  Instant start_{};
};

void Run::on_process_fault(const PlannedFault& fault) {
  SimProcess& process = *processes_[fault.nic.server];
  if (fault.kind == FaultKind::kPause) {
    world_.pause(process.slot(), world_.now() + fault.lasts);
    return;
  }
  victim_[fault.nic.server] = true;
  if (fault.kind == FaultKind::kPartition) return;
  world_.kill(process.slot());
  if (fault.kind == FaultKind::kProcessDeath) network_.drop_process(process.dialer(), fault.amount > 0);
  workload_.on_process_dead(fault.nic.server);
}

void Run::start_faults() {
  driver_.start();
  for (const auto& process : processes_) process->set_fault_driver(&driver_);
}

bool Run::rendezvous() {
  std::vector<ProcessId> ids;
  for (const auto& process : processes_) ids.push_back(process->id());
  auto id = processes_[0]->host_root();
  if (!id) {
    referee_.violation("root: " + id.error().what);
    return false;
  }
  for (const auto& process : processes_) {
    process->set_peers(ids);
    process->join(*id);
    process->set_on_turn([this] {
      if (std::ranges::all_of(processes_, [](const auto& one) { return one->ready(); })) world_.stop();
    });
  }
  if (scenario_.early_faults) start_faults();
  const Duration faults = scenario_.early_faults ? scenario_.plan.quiet_by() : Duration{};
  if (!world_.run_until(world_.now() + kReadyWithin + faults)) return true;
  referee_.violation("the processes did not find each other in time");
  return false;
}

bool Run::told_of_deaths() const {
  for (std::size_t i = 0; i < victim_.size(); ++i) {
    for (std::size_t j = 0; j < victim_.size(); ++j) {
      if (i != j && (victim_[i] || victim_[j]) && !dead(i) && !referee_.peer_down(i, j)) return false;
    }
  }
  return true;
}

bool Run::everything_settled() const {
  if (!workload_.settled()) return false;
  if (!scenario_.plan.lethal()) return true;
  return std::ranges::count(victim_, true) != 0 && told_of_deaths();
}

void Run::exchange() {
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
  Duration last{};
  for (const PlannedMessage& message : scenario_.messages) last = std::max({last, message.send_at, message.receive_at});
  for (const PlannedAction& action : scenario_.actions) last = std::max(last, action.at);
  world_.run_until(start_ + std::max(scenario_.plan.quiet_by(), last) + patience);
  if (!everything_settled()) {
    if (!told_of_deaths()) referee_.violation("somebody was not told of a peer's death in time");
    if (!workload_.settled())
      referee_.violation(fmt::format("{} operations did not end in time", workload_.unsettled()));
  }
  for (std::size_t i = 0; i < victim_.size(); ++i) {
    for (std::size_t j = 0; j < victim_.size(); ++j) {
      if (i != j && !victim_[i] && !victim_[j] && referee_.peer_down(i, j))
        referee_.violation(fmt::format("process {} was told that {} is gone, which is not true", i, j));
    }
  }
  for (const auto& process : processes_) process->set_on_turn({});
  if (referee_.violations().empty()) world_.run_until(world_.now() + kAftermath);
}

void Run::farewell() {
  referee_.begin_finish();
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

RunReport Run::run() {
  try {
    if (rendezvous()) {
      exchange();
      farewell();
      workload_.check_end();
    }
  } catch (const Bug& bug) {
    referee_.violation(std::string("bug: ") + bug.what());
  }
  if (world_.exhausted()) referee_.violation(fmt::format("the run took more than {} events", kEventsMax));
  for (std::size_t i = 0; i < processes_.size(); ++i)
    if (world_.spins(processes_[i]->slot()))
      referee_.violation(fmt::format("process {} spins: it asks to be stepped at once, in vain", i));
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
  }
  report.simulated = world_.now() - start_;
  return report;
}

}  // namespace

RunReport run_scenario(const Scenario& scenario) {
  Run run(scenario);
  return run.run();
}

}  // namespace r2ccl::sim
