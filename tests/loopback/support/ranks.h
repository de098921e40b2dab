#pragma once
// Ranks of one communicator as threads of the test, each with a World of its own, as if it were a process. NICs are
// loopback addresses; ranks with the same server number share them.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "env/settings.h"
#include "process/world.h"

namespace r2ccl::loopback {

struct RanksPlan {
  std::uint32_t ranks = 2;
  std::uint32_t per_server = 1;
  std::uint32_t nics = 2;
  std::vector<std::string> settings;  // "NAME=value", for all
  std::vector<std::string> faults;    // R2CCL_FAULT of all; each acts at the server it names
  CommConfig config;
};

Settings settings_of(const RanksPlan& plan, std::uint32_t rank);

// Runs the body in every rank with its joined communicator; throws what the first body threw. Without `finalize` the
// communicators are left to their destructor.
void run_ranks(const RanksPlan& plan, const std::function<void(Comm&, World&)>& body, bool finalize = true);

}  // namespace r2ccl::loopback
