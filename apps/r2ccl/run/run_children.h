#pragma once
// The processes of one job: started together, ended together.
//
//   a child fails         the others have RunLimits::grace to end by themselves, then they are ended
//   SIGINT, SIGTERM       all are ended
//   this process dies     all die (PR_SET_PDEATHSIG)
//
// Ending is SIGTERM, and SIGKILL after RunLimits::term_max. Rank 0 speaks for the job: its output is passed on as it
// is; lines that others write to stderr begin with "[rank] ". What others write to stdout is passed on as it is.
//
// Threads  The caller must have no other thread: children are forks of it.

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "base/time.h"

namespace r2ccl::apps {

struct RunLimits {
  Duration grace = 10s;
  Duration term_max = 3s;
};

// Runs body(rank) in a process of its own for each rank below `size`; its result is the child's exit status. Returns
// when all have ended: 0, or the status of the first that failed; 128 + signal for one that a signal ended, and for
// this process when one ended the job.
Result<int> run_children(std::uint32_t size, const std::function<int(std::uint32_t rank)>& body,
                         const RunLimits& limits = {});

}  // namespace r2ccl::apps
