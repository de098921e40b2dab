#pragma once
// Several processes of this tool as one job: who they are, how they find each other, and streams between them.
// Everything a child tells its parent is one JSON object per line; {"error": sentence} means that it gave up.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/r2ccl/common/child.h"
#include "apps/r2ccl/common/json.h"
#include "base/result.h"
#include "env/settings.h"
#include "runtime/threads/process.h"

namespace r2ccl::apps {

inline constexpr Duration kJoinMax = 20s;

// Thrown in a child: its sentence goes to the parent and the child ends.
struct Gone : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Runs the body; whatever it throws is sent to the parent as {"error": ...}. The exit status of the child.
int run_reporting(LineChannel& parent, const std::function<void()>& body);

// What child `index` says next; an error when it gave up, ended or is late.
Result<Json> next_report(Children& children, std::size_t index, Instant deadline);

// In a child: makes the process and joins it to the others. Rank 0 hosts the job and tells its parent the id, which
// the parent passes to the rest with pass_id().
struct JobPlace {
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
};
struct JobEnd {
  std::unique_ptr<Process> process;
  Secret secret;
  std::vector<ProcessInfo> roster;  // by rank
};
JobEnd join_job(const Settings& settings, const JobPlace& place, LineChannel& parent);
Status pass_id(Children& children, Instant deadline);

}  // namespace r2ccl::apps
