#pragma once
// One process of a simulated run: the shipped provider and engine over a simulated dialer, and an application on top
// that does what the scenario says. The world steps it; now and then it checks that its sessions keep their bounds.

#include <memory>
#include <vector>

#include "runtime/engine.h"
#include "sim/net/collectives/comm_member.h"
#include "sim/net/fault_plan.h"
#include "sim/net/referee.h"
#include "sim/net/wires/sim_dialer.h"
#include "sim/net/workload.h"
#include "transport/stream/stream_provider.h"

namespace r2ccl::sim {

class SimLog final : public Log {
 public:
  SimLog(std::size_t process, const std::function<void(const std::string&)>& trace, SimWorld& world)
      : process_(process), trace_(trace), world_(world) {}
  bool enabled(LogLevel) const override { return trace_ != nullptr; }
  void write(LogLevel level, std::string_view line) override;

 private:
  std::size_t process_;
  const std::function<void(const std::string&)>& trace_;
  SimWorld& world_;
};

class SimProcess final : public Stepped, private EventListener {
 public:
  SimProcess(std::size_t index, const Scenario& scenario, SimWorld& world, Network& network, Referee& referee,
             Workload& workload, CollectiveBoard& board);
  ~SimProcess() override;

  Result<UniqueId> host_root();  // process 0
  void listen();
  void join(const UniqueId& id);
  void set_peers(const std::vector<ProcessId>& ids) { ids_ = ids; }
  void set_fault_driver(FaultDriver* driver) { driver_ = driver; }
  void set_on_turn(std::function<void()> on_turn) { on_turn_ = std::move(on_turn); }
  void begin(Instant start) { start_ = start; }  // of the workload
  void finish(Instant now);

  Turn step(Instant now) override;
  bool ready() const;
  bool finished() const { return engine_->finished(); }
  bool left_amid_faults() const { return left_amid_faults_; }
  bool leaving() const { return leaving_; }  // of its own accord; exits once it has said goodbye
  ProcessId id() const { return id_; }
  SimDialer& dialer() { return dialer_; }
  ProcessIndex slot() const { return slot_; }
  Engine& engine() { return *engine_; }
  const Counters& counters() const { return telemetry_.counters; }
  const std::vector<std::unique_ptr<CommMember>>& members() const { return members_; }  // of communicators

 private:
  void on_event(const Event& event) override;
  void make_members(CollectiveBoard& board);
  Turn step_members(Instant now);
  void open_sessions();
  Turn run_actions(Instant now);
  void abort(std::uint8_t subject);
  bool take_completions();
  void check_bounds(Session& session);
  void leave_if_done(Instant now);

  const std::size_t index_;
  const Scenario& scenario_;
  SimWorld& world_;
  Network& network_;
  Referee& referee_;
  Workload& workload_;
  SimRandom random_;
  SimLog log_;
  ProcessId id_;
  Keyring keyring_;
  SimDialer dialer_;
  Telemetry telemetry_;
  std::unique_ptr<StreamProvider> provider_;
  std::unique_ptr<Engine> engine_;
  ProcessIndex slot_;
  std::vector<ProcessId> ids_;  // by index
  std::vector<Session*> sessions_;
  std::vector<std::unique_ptr<CommMember>> members_;
  FaultDriver* driver_ = nullptr;
  std::function<void()> on_turn_;
  Instant start_ = kNever;
  std::size_t next_action_ = 0;
  bool leaving_ = false;
  bool left_amid_faults_ = false;
};

}  // namespace r2ccl::sim
