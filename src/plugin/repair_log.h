#pragma once
// One line per failure, for the log: which NICs, of which servers, why, how many bytes were sent again and how long
// that took. Paths that die together share a line.
//
// Threads    The engine's driver. It does nothing but write to the log.

#include <functional>
#include <string>
#include <vector>

#include "env/env.h"
#include "telemetry/telemetry.h"

namespace r2ccl::plugin {

class RepairLog final : public EventListener {
 public:
  static constexpr Duration kSettle = 100ms;  // after the first death, for what belongs to it

  // `name` makes "NIC eth1 (host a) to NIC eth1 (host b)" of a path and the process at its other end.
  using Name = std::function<std::string(PathId path, ProcessId peer)>;
  RepairLog(Log& log, Name name) : log_(log), name_(std::move(name)) {}

  void on_event(const Event& event) override;
  // Writes the line when it is time; returns when that is.
  Instant step(Instant now);

 private:
  struct Death {
    PathId path;
    ProcessId peer;
    Cause cause;
  };
  Log& log_;
  const Name name_;
  std::vector<Death> deaths_;
  Instant first_{}, repaired_{};
  std::uint64_t resent_bytes_ = 0;
};

}  // namespace r2ccl::plugin
