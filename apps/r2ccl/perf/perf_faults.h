#pragma once
// What happened to NICs while `r2ccl perf` ran: each rank notes what its sessions met, and rank 0 makes one line per
// NIC that was broken on purpose or blamed by a verdict.
//
// Times count from the rank's start of measuring; ranks start within one small collective of each other.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/r2ccl/common/json.h"
#include "health/verdict.h"
#include "telemetry/telemetry.h"
#include "topology/nic.h"
#include "transport/fault/fault_spec.h"

namespace r2ccl::apps {

// What happened to one NIC, as one rank or all of them saw it. Times are in milliseconds; lists are sorted and hold the
// first kTimesMax of each rank.
struct NicFacts {
  static constexpr std::size_t kTimesMax = 256;

  std::optional<double> at;      // the fault was injected here
  std::vector<double> troubles;  // a path of it became suspect or went down
  std::vector<double> fences;    // a path of it was fenced at both ends; what it carried is sent again at that moment
  std::vector<double> idle_fences;  // the same of paths that carried nothing
  std::optional<double> trusted;    // a path of it was trusted again after trouble, last
  std::uint64_t resent_bytes = 0;   // second copies while this was the last NIC in trouble
  std::string verdict;              // of the verdicts that name it the last, as to_text(Blame)
  bool blamed = false;              // by one of them as the culprit

  void merge(const NicFacts& other);
  // The first trouble that the fault can have made, and the last of the fences that follow it closely, of paths that
  // carried something if any did. Trouble from before the fault is another story.
  std::optional<double> noticed() const;
  std::optional<double> repaired() const;
  std::optional<double> returned() const;
};
using FactsByNic = std::map<NicName, NicFacts>;

// Takes notes; called with the engine held.
class FaultWatch final : public EventListener {
 public:
  FaultWatch(const ProcessInfo& self, const std::vector<ProcessInfo>& roster, Instant start);
  void on_event(const Event& event) override;
  // What was noted, and what the verdicts say.
  FactsByNic facts(const std::vector<Verdict>& verdicts) const;

 private:
  double ms(Instant at) const { return to_ms(at - start_); }
  const ProcessId self_;
  const ServerId server_;
  const Instant start_;
  std::map<ProcessId, ServerId> servers_;
  FactsByNic facts_;
  std::set<std::pair<ProcessId, PathId>> loaded_;  // paths that went down with something under way from here
  std::vector<NicName> troubled_;                  // both ends of the path that was last in trouble
};

// One line of text each way, for sending facts to other ranks. Malformed text gives nothing.
std::string facts_text(const FactsByNic& facts);
FactsByNic facts_from(const std::string& text);

// One row per fault; `specs` are the injected ones.
struct FaultRow {
  NicName nic;
  std::string kind;  // "unknown" where it was not ours
  NicFacts facts;
};
std::vector<FaultRow> fault_rows(const FactsByNic& facts, const std::vector<FaultSpec>& specs);
std::string fault_line(const FaultRow& row);
Json to_json(const FaultRow& row);

}  // namespace r2ccl::apps
