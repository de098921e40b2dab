#pragma once
// Listens to the telemetry of one rank of the demo and keeps what its parent wants to know. on_event() is called by
// whoever drives the engine; take() by the rank's own thread.

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/r2ccl/demo/demo_report.h"
#include "telemetry/telemetry.h"
#include "topology/nic.h"

namespace r2ccl::apps {

class DemoTap final : public EventListener {
 public:
  static constexpr Duration kGapMin = 5ms;  // shorter pauses between chunks are ordinary

  // Rank r is on server r.
  DemoTap(ProcessId self, const std::vector<ProcessInfo>& roster, std::size_t nics);

  void on_event(const Event& event) override;

  // From now on pauses count; before, nothing was sent.
  void start(Instant now);
  // What happened since the last call.
  std::vector<Json> take();
  std::vector<std::uint64_t> sent_bytes() const;

 private:
  DemoEvent describe(const Event& event) const;
  std::uint32_t rank_of(ProcessId process) const;
  void on_copy(const Event& event);
  void on_placed(const Event& event);

  const std::vector<ProcessInfo> roster_;
  const ProcessId self_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Json> reports_;
  std::map<std::uint8_t, DemoResent> resent_;  // by NIC
  Instant placed_at_ = kNever;                 // last; kNever before start()
  std::vector<std::uint64_t> sent_bytes_;      // by NIC
};

}  // namespace r2ccl::apps
