#pragma once
// What NICs are busy with, as a trace that Perfetto and Chrome show: one process per server, one thread per NIC and
// direction.

#include <string>
#include <vector>

#include "base/result.h"
#include "sim/cluster/timing.h"

namespace r2ccl::apps {

// Replaces the file. Fails with one sentence when it can not be written.
Status write_timeline(const std::string& path, const std::vector<sim::Occupancy>& occupancy);

}  // namespace r2ccl::apps
