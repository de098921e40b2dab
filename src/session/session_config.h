#pragma once
// Everything about a session that may be chosen: bounds, when silence is suspect, when a path comes back, and the
// rules that a test may break.

#include "health/comeback.h"
#include "health/silence.h"
#include "session/limits.h"
#include "session/rules.h"
#include "topology/nic.h"

namespace r2ccl {

struct SessionConfig {
  SessionLimits limits;
  SilenceLimits silence;
  ComebackLimits comeback;
  Rules rules;
  Fabric fabric = Fabric::kRouted;
};

}  // namespace r2ccl
