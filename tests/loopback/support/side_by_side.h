#pragma once
// Runs several scenarios at once, each in a process of its own, because most of their time is waiting.

#include <functional>
#include <string>
#include <vector>

#include "base/time.h"

namespace r2ccl::loopback {

struct Scenario {
  std::string name;
  std::function<void()> run;  // throws with a sentence when the claim does not hold
};

// One sentence per scenario that failed or did not end in time. Call it while the process has no threads.
std::vector<std::string> run_side_by_side(const std::vector<Scenario>& scenarios, Duration within);

}  // namespace r2ccl::loopback
