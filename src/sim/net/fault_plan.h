#pragma once
// What goes wrong in a run, and when: drawn from the seed beforehand, printable, applied by FaultDriver.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/net/wires/sim_network.h"
#include "telemetry/telemetry.h"

namespace r2ccl::sim {

enum class SimFaultKind : std::uint8_t {
  kCut,             // connections between two NICs are reset; the ends notice at their own times, or only one does
  kCutAll,          // every connection between two servers at once, the management NIC's too
  kBlackHole,       // a NIC neither sends nor receives, silently
  kOneWayLoss,      // nothing from one NIC reaches the other
  kPacketLoss,      // some packets of a NIC are lost
  kDelaySpike,      // everything through a NIC takes longer
  kSlowDown,        // a NIC's rate falls
  kCorruptHeader,   // a bit of the next small part written on a NIC
  kCorruptPayload,  // ... of the next long part
  kNicDown,         // carrier lost, and the owner is told
  kNicLost,         // for good: one NIC of several; amount > 0: the owner is told
  kServerCutOff,    // every data NIC of a server is a black-hole
  kPause,           // a process is not scheduled
  kProcessDeath,    // for good: its kernel closes what it had
  kServerDeath,     // for good: silent
  kPartition,       // for good: no data NIC of the server reaches anybody; amount > 0: nor does its management NIC
};
const char* to_text(SimFaultKind kind);

// Aims a fault at a moment of the protocol: the n-th such event at that process.
struct Trigger {
  EventKind kind{};
  std::uint8_t process = 0;
  int nth = 1;
};

struct PlannedFault {
  SimFaultKind kind{};
  Duration at{};  // after the start; with a trigger: after its event
  std::optional<Trigger> trigger{};
  Duration lasts{};        // zero: heals at once by nature (cut, corruption), or never (deaths)
  NicRef nic{};            // deaths, kPause: its server
  std::uint8_t local = 0;  // kPause, kProcessDeath: which process of that server
  NicRef other{};          // kCut, kOneWayLoss
  Duration notice_nic{};   // kCut: when the end at `nic` learns it; Network::kNeverNotices
  Duration notice_other{};
  double amount = 0;  // loss probability, rate factor, delay in ms
  bool late_prefix = false;
};
std::string to_text(const PlannedFault& fault);

struct FaultPlan {
  std::vector<PlannedFault> faults;
  bool lethal() const;  // somebody dies or is cut off for good
  // Everything that heals has healed by then; triggered faults start no later than `trigger_by`.
  Duration quiet_by() const;
  Duration trigger_by{};
};

// Applies a plan to the network. What happens to processes themselves (pauses and deaths) is handed to
// `on_process_fault`, because their owner has to stop them.
class FaultDriver final : private EventTarget {
 public:
  FaultDriver(SimWorld& world, Network& network, const FaultPlan& plan,
              std::function<void(const PlannedFault&)> on_process_fault);

  void start();  // times in the plan count from now
  void on_telemetry(std::uint8_t process, EventKind kind);
  std::size_t faults_begun() const { return begun_; }

 private:
  enum Kind : std::uint32_t { kBegin, kEnd };
  void on_event(std::uint32_t kind, std::uint32_t argument) override;
  void apply(const PlannedFault& fault, bool on);
  void cut_all(const PlannedFault& fault);
  void for_data_nics(std::uint8_t server, const std::function<void(SimNicState&)>& body);

  SimWorld& world_;
  Network& network_;
  const FaultPlan& plan_;
  std::function<void(const PlannedFault&)> on_process_fault_;
  std::vector<int> seen_;  // events of each trigger so far
  Instant started_ = kNever;
  std::size_t begun_ = 0;
};

}  // namespace r2ccl::sim
