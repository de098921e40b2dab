#pragma once
// Makes the faults of a lab in the kernel when their time comes.

#include <string>
#include <vector>

#include "apps/r2ccl/common/console.h"
#include "lab/built_lab.h"
#include "lab/fault_clock.h"
#include "transport/fault/fault_spec.h"

namespace r2ccl::apps {

// Where ranks of this lab show how far they are (R2CCL_STATS), so that faults may wait for an operation.
std::string stats_directory(const lab::LabPlan& plan);

// The faults of a command line, for a lab: kMisuse when one is malformed, or of a NIC that there is not.
Result<std::vector<FaultSpec>> lab_faults(const std::vector<std::string>& texts, const lab::LabPlan& plan);

enum class Afterwards : std::uint8_t { kReturn, kWait };

// Makes faults until nothing more will change, or until `stop` can be read or is closed; kWait waits for `stop` in any
// case. Each change is one line on stderr; so is one that could not be made, and the others go on. True if all were
// made.
bool drive_faults(lab::BuiltLab& cluster, lab::FaultClock& clock, int stop, Afterwards afterwards, Console& console);

}  // namespace r2ccl::apps
