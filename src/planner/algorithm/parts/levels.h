#pragma once
// Rings of different members side by side, for R²CCL-AllReduce and its recursion: level 0 is a ring of all servers,
// each further level a ring of fewer, faster ones on its own part of the data, at the rate that the levels before leave
// idle. Rings are pinned to rails, so none takes from another. What the excluded servers have for a level's part is
// merged later, in a second stage.

#include <cstdint>
#include <vector>

#include "planner/plan.h"
#include "schedule/schedule.h"
#include "topology/cluster.h"

namespace r2ccl {

struct Level {
  std::vector<std::uint32_t> members;   // in ring order
  std::vector<std::uint32_t> excluded;  // the other servers
  std::vector<double> rail_rate;        // [rail] bytes per second that the ring takes of every member's NIC
  double rate = 0;                      // their sum; 0: no part of the data, no ring
  double share = 0;                     // of the data

  // Where the level's part lies, by lay_out(). Column c are the pieces that start at member c, one for each rail in
  // use, side by side: span first_span + c.
  std::vector<std::uint32_t> rails;  // in use
  std::uint32_t first_piece = 0;
  std::uint32_t first_span = 0;
  std::uint32_t first_channel = 0;

  std::uint32_t size() const { return static_cast<std::uint32_t>(members.size()); }
  // Runs a ring, and needs a second stage.
  bool merges() const { return share > 0 && !excluded.empty(); }
};

struct Levels {
  std::vector<Level> levels;
  // PlanHeader::nic_of_rail. On a routed fabric the rails of a plan are each server's NICs from the fastest to the
  // slowest, so that servers that lost different NICs still have their rails in common.
  std::vector<std::uint8_t> nic_of_rail;
  std::uint32_t segments = 1;
  std::uint32_t channels = 0;  // used by the rings
};

// `members`: of each level, at least two, each a part of the one before; the first are all servers. Shares make all
// rings end together.
Levels levels_of(const Cluster& cluster, const std::vector<std::vector<std::uint32_t>>& members);

// Sets layout, slots and NICs of the header, and the places of the levels in it.
void lay_out(Levels& levels, std::uint32_t segments, PlanHeader& header);

// What one server does in the first stage, and what a step of the second must wait for in its outer iteration 0.
struct FirstStage {
  std::vector<Lane> lanes;
  std::vector<Wait> over;
};
FirstStage first_stage(const Levels& levels, std::uint32_t server);

// Time of the slowest level's ring, and the bytes of its smallest typical message without segments.
double rings_seconds(const Levels& levels, double bytes, std::uint32_t segments, const Cluster& cluster);
double ring_message(const Levels& levels, double bytes);

// `step`, which runs for outer iterations [0, outer), held back by `waits` before the first.
std::vector<Step> gated(Step step, const std::vector<Wait>& waits, std::uint32_t outer);

}  // namespace r2ccl
