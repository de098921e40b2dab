#pragma once
// A Provider whose NICs break on request. Decorates any provider; with TCP beneath, the other end of a connection
// meets a real dead cable: its packets are dropped in this end's kernel, acknowledgements do not come, new
// connections stay unanswered.
//
//   kind        the NIC is               and
//   blackhole   cut                      nothing says so
//   cable       cut                      NicEvent down at once, up when healed
//   down        cut                      the same; its links fail with kLocal, new ones too
//   flap        cut every other period   NicEvent down and up likewise
//   slow        slow                     its links share two token buckets, one each way. A link's step is the smallest
//                                        portion, so StreamLimits::read_bytes_per_step decides how evenly it flows
//   reset       fine                     all links it has at that moment go down with kReset at both ends
//
// Faults on one NIC add up: it is cut while any of them cuts it, and as slow as the slowest.
//
// Threads    As transport/link.h says.
// Ownership  The inner provider, telemetry and what the hooks call are borrowed and must outlive this.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "telemetry/telemetry.h"
#include "transport/fault/fault_link.h"
#include "transport/fault/fault_nic.h"
#include "transport/fault/fault_spec.h"
#include "transport/link.h"

namespace r2ccl {

struct FaultHooks {
  // Makes sockets of the NIC that are no links (listeners, half-open connections) deaf too: TcpDialer::deafen_nic.
  // Without it inbound connections still shake hands on a cut NIC and are silent from then on.
  std::function<void(NicId, bool)> deafen_nic;
};

class FaultProvider final : public Provider {
 public:
  // Faults for `server` act, with times counted from the first step(); those for other servers are ignored.
  FaultProvider(Provider& inner, ServerId server, const std::vector<FaultSpec>& specs, Telemetry* telemetry = nullptr,
                FaultHooks hooks = {}, const FaultLimits& limits = {});
  ~FaultProvider() override;

  std::span<const Nic> nics() const override { return inner_.nics(); }
  Result<Address> listen(NicId nic, std::uint16_t port) override { return inner_.listen(nic, port); }
  Result<std::unique_ptr<Link>> connect(NicId nic, const Address& remote, const Hello& hello, Instant now) override;
  std::unique_ptr<Link> accept() override;
  std::optional<NicEvent> next_event() override;
  Turn step(Instant now) override;

  // Adds a fault now; a time in `at` counts from `now`, so zero acts at once. kMisuse: another server's, or no such
  // NIC.
  Status inject(const FaultSpec& spec, Instant now);
  // Faults with `at=op:` and `at=bytes:` start here. A fault acts at most once.
  void on_operation(std::uint64_t operation, Instant now);
  void on_bytes_moved(std::uint32_t share_ppm, Instant now);  // millionths of the running collective

  // kMisuse with one sentence if a fault for `server` names a NIC that is not there.
  static Status check(const std::vector<FaultSpec>& specs, ServerId server, std::span<const Nic> nics);

  std::size_t waiting_or_active() const { return faults_.size(); }
  std::uint64_t injected() const { return injected_; }
  bool cut(NicId nic) const;

 private:
  struct Planned {
    FaultSpec spec;
    std::uint64_t number = 0;
    Instant start = kNever;  // kNever: waits for its operation or share
    Instant heal = kNever;
    bool active = false;
  };
  FaultNic& nic(NicId id);
  const std::shared_ptr<FaultNic>& shared_nic(NicId id);
  void add(const FaultSpec& spec, Instant zero);
  bool advance(Instant now);
  void begin(Planned& fault, Instant now);
  bool apply(Instant now);
  bool apply(FaultNic& nic, Instant now);
  void set_cut(FaultNic& nic, bool cut, Instant now);
  void tell(NicId nic, bool up);
  void record(EventKind kind, const Planned& fault, Instant now);
  Instant next_change(Instant now) const;
  static bool is_pulled(const Planned& fault, Instant now);

  Provider& inner_;
  const ServerId server_;
  Telemetry* const telemetry_;
  const FaultHooks hooks_;
  const FaultLimits limits_;
  bool started_ = false;
  Instant now_{};
  std::uint64_t injected_ = 0;
  std::vector<Planned> faults_;  // waiting or active, oldest first
  std::map<NicId, std::shared_ptr<FaultNic>> nics_;
  std::deque<NicEvent> events_;
  std::deque<std::unique_ptr<FaultLink>> vanished_;  // came in on a cut NIC; never shown
};

}  // namespace r2ccl
