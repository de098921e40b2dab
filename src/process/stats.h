#pragma once
// Keeps the page of shared memory up to date in which other processes see how one endpoint gets on
// (telemetry/stats_page.h).
//
// Threads  The engine's driver.

#include <cstddef>
#include <optional>

#include "base/time.h"
#include "comm/communicator.h"
#include "env/env.h"
#include "env/settings.h"
#include "runtime/engine.h"
#include "telemetry/stats_page.h"

namespace r2ccl {

class StatsWriter final {
 public:
  static constexpr Duration kEvery = 100ms;  // apart from progress, which is always fresh

  // Where there can be no page it says so in the log and does nothing from then on.
  StatsWriter(const Settings& settings, std::size_t endpoint, Log& log);

  bool shown() const { return page_.has_value(); }

  void on_progress(const Reached& reached, Instant now, Engine& engine, const Telemetry& telemetry,
                   const Communicator& communicator);

 private:
  std::optional<StatsPage> page_;
  Instant next_{};
};

}  // namespace r2ccl
