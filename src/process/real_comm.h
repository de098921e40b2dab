#pragma once
// A Comm over NICs: a Communicator of an endpoint of this process, with waiting added.
//
// Threads    Any; the communicator is touched with the engine held only.
// Ownership  Keeps its endpoint, and what the process shares, alive.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "process/comm.h"
#include "process/world_parts.h"
#include "runtime/threads/process.h"
#include "runtime/threads/spin.h"
#include "transport/fault/fault_spec.h"

namespace r2ccl {

class RealComm final : public Comm, private CallObserver {
 public:
  RealComm(std::shared_ptr<WorldParts> world, std::shared_ptr<RankEndpoint> endpoint, const UniqueId& id,
           std::uint32_t rank, std::uint32_t size, CommConfig config);
  ~RealComm() override;

  std::uint32_t rank() const override;
  std::uint32_t size() const override;
  CommState state() override;
  Error error() override;
  Status wait_joined() override;
  Result<TicketPtr> submit(std::vector<Call> calls) override;
  bool done(const TicketPtr& ticket) override;
  bool wait_for(const TicketPtr& ticket, Duration most) override;
  Status wait(const TicketPtr& ticket) override;
  Status run(const Call& call) override;
  Result<double> estimate(const std::vector<Call>& calls) override;
  PlanInUse plan_in_use() override;
  Status finalize() override;
  void abort(const std::string& why) override;
  Status invite(const std::vector<std::uint32_t>& stay, std::optional<UniqueId> id) override;
  Result<UniqueId> invited() override;
  void end_invitation() override;
  std::vector<NicView> nics() override;
  void drain(NicId nic, bool on) override;
  void inspect(FunctionRef<void(const Engine& engine, Telemetry& telemetry)> look) override;

 private:
  void on_progress(const Reached& reached, std::uint64_t bytes, Instant now) override;
  std::optional<NicName> on_members(const std::vector<ProcessInfo>& members, Instant now) override;
  void lose(const FaultSpec& fault, Instant now);
  // With the engine held, for a caller that waits: runs what only needs memory, as far as it goes. True: the ticket
  // is done.
  bool go_on_until(const CallTicket& ticket);

  Process& process() const { return *endpoint_->process; }
  Driver& driver() const { return process().driver(); }
  Instant now() const { return process().clock().now(); }

  const std::shared_ptr<WorldParts> world_;
  const std::shared_ptr<RankEndpoint> endpoint_;
  const unsigned processors_ = processors();
  Engine* engine_ = nullptr;
  bool decides_loss_ = false;              // R2CC_MODE: this communicator loses what is to be lost
  std::optional<FaultSpec> waiting_loss_;  // for the middle of a call
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Invitation> invitation_;
};

}  // namespace r2ccl
