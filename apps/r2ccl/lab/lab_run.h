#pragma once
// A lab for one job: `r2ccl lab run`.
//
//   r2ccl lab run ── builds, starts the ranks, waits for them
//      └─ keeper  ── makes the faults; removes the lab as soon as the other one is done or dead
//
// So a run that is killed cleans up too. Where both are killed, the next run of the same name or `r2ccl lab down` does
// it.

#include <string>
#include <vector>

#include "apps/r2ccl/common/command.h"
#include "apps/r2ccl/run/run_plan.h"
#include "lab/lab_plan.h"
#include "lab/state_file.h"

namespace r2ccl::apps {

struct LabRunOptions {
  lab::LabPlan lab;  // servers, NICs and fabric follow from `plan`
  RunPlan plan;
  std::vector<std::string> program;
};

Result<int> run_in_lab(const LabRunOptions& options, const Context& context);

// What a rank of `r2ccl run` would find, with the NICs and the meeting place of the lab, and no faults: those are real.
std::vector<std::string> lab_environment(const LabRunOptions& options, const RunMeeting& meeting, std::uint32_t rank);

// "R2CCL_NIC_SPEED=…": a veth tells 10 Gbit/s, whatever it is shaped to.
std::string nic_speed_line(const lab::LabPlan& plan);

// Turns this process into the program, inside that server's namespace. Returns only when it fails, with the sentence.
Error become_in_lab(const lab::LabPlan& plan, std::uint64_t server, const std::vector<std::string>& program,
                    const std::vector<std::string>& environment);

// The file of a new lab, whose namespaces are free. What a killed run of that name has left is removed first.
Result<lab::StateFile> claim_lab(const lab::LabPlan& plan, bool kept);

// Removes a lab that this process holds, and its file.
Status remove_lab(const lab::LabPlan& plan, lab::StateFile& file);

}  // namespace r2ccl::apps
