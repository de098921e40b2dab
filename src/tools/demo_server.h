#pragma once
// One server of the demo: a process that streams checked messages to and from every other one until told to stop.

#include "env/settings.h"
#include "tools/child.h"
#include "tools/demo_plan.h"

namespace r2ccl::tools {

// The body of a child. Says {"ready"}, waits for {"go": instant}, streams and reports (demo_report.h), and at {"stop"} ends
// every stream and says {"totals"}. Throws Gone with a sentence when something is not as it should be.
void run_demo_server(const DemoPlan& plan, std::uint32_t rank, const Settings& settings, LineChannel& parent);

}  // namespace r2ccl::tools
