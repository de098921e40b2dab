#pragma once
// Makes the cluster that a plan describes in the kernel, looks at it, changes it and removes it. Needs root.
//
// Threads  One: it visits namespaces and comes back.
// Failure  One sentence. What build() had made by then stays: tear_down() removes whatever is there of the plan.

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "lab/fault_clock.h"
#include "lab/lab_plan.h"
#include "lab/netlink.h"

namespace r2ccl::lab {

// kMisuse when one of the plan's namespaces is there already.
Status check_free(const LabPlan& plan);

Status build(const LabPlan& plan);

// Kills what runs inside, removes all interfaces and the namespaces; goes on after an error and returns the first.
// Touches only namespaces with the plan's names.
Status tear_down(const LabPlan& plan);

struct NicReport {
  LabNicState state;
  bool carrier = false;
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
};

// A namespace and a socket that speaks to it.
struct LabPlace {
  Fd name_space;
  std::string name;
  Netlink netlink;
};

// A cluster that is built, for looking and for faults.
class BuiltLab final {
 public:
  static Result<BuiltLab> open(const LabPlan& plan);

  const LabPlan& plan() const { return plan_; }
  LabNicState healthy() const { return {.rate_bytes_s = plan_.rate_bytes_s}; }
  // NICs are those of the plan and its management(), whose rate is left alone. Makes the NIC so, touching only what
  // differs.
  Status set(ServerId server, NicId nic, const LabNicState& state);
  // Resets its connections and says how many there were.
  Result<std::size_t> reset(ServerId server, NicId nic);
  Result<NicReport> read(ServerId server, NicId nic);

 private:
  explicit BuiltLab(const LabPlan& plan) : plan_(plan) {}

  LabPlan plan_;
  std::vector<LabPlace> places_;  // the switch, then servers
};

}  // namespace r2ccl::lab
