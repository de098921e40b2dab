#pragma once
// Long pipelines are timed by short ones. The model is max-plus and does not care when a collective starts, so a
// pipeline that has filled up passes its rounds (outer iterations) at an even rate until it drains: a run of some
// rounds gives its rate and what filling and draining cost, and every round that was left out costs the rate.
//
// Lanes that hang together, by messages or by waits, have one rate; the slowest of such groups decides. A rate is the
// mean over the lanes of a group that send between servers, because single lanes change places with each other. It is
// trusted only when two stretches of the run agree and no server falls behind the others; otherwise all rounds are run.
// A run that was not trusted hardly ever is when it is made a little longer.

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/schedule.h"
#include "sim/cluster/flat_lanes.h"
#include "topology/cluster.h"

namespace r2ccl::sim {

struct LongPipeline {
  std::uint32_t rounds = 0;   // K; lanes may have a few more
  std::uint32_t start = 0;    // ranges of steps that are bounded near the start are bounded by so many rounds
  std::uint32_t period = 1;   // rounds after which everything repeats
  std::uint32_t filled = 0;   // rounds after which it runs evenly
  std::uint32_t shorter = 0;  // rounds that are enough to see it; rounds - shorter is a multiple of the period
};
// Nothing if the lanes are not one pipeline over the segments or if it is short.
std::optional<LongPipeline> pipeline_of(const FlatLanes& flat, const PlanHeader& header);

// How long ports were busy in a run, at most.
struct Busiest {
  double nics_s = 0;    // a server's NICs, in the mean
  double fabric_s = 0;  // a GPU's port inside its server
};

// When the groups of lanes have passed their rounds; filled in by the replay of a shorter run.
class RoundProgress final {
 public:
  RoundProgress(const FlatLanes& flat, const Cluster& cluster, const LongPipeline& pipeline);

  void pass(std::uint32_t lane, std::uint32_t round, double at_s) {
    if (!counts_[lane] || round >= rounds_) return;
    sum_s_[std::size_t{party_[lane]} * rounds_ + round] += at_s;
  }
  void end(std::uint32_t lane, double at_s) {
    if (end_s_[group_[lane]] < at_s) end_s_[group_[lane]] = at_s;
  }
  // When all rounds would have been run. Nothing if the run was not even, or if the fabric inside a server decides. No
  // pipeline is faster in the long run than its busiest server, though it seems so while that one falls behind the
  // others.
  std::optional<double> whole_s(const Busiest& busiest) const;

 private:
  void find_groups(const FlatLanes& flat, const Cluster& cluster);
  struct Party {
    std::uint32_t group = 0;
    std::uint32_t lanes = 0;  // that count
  };
  // Per round, from the end of `first` to the end of `last`: summed over the lanes of a party.
  double rate_s(std::uint32_t party, std::uint32_t first, std::uint32_t last) const {
    const double* const sum_s = sum_s_.data() + std::size_t{party} * rounds_;
    return (sum_s[last] - sum_s[first]) / (last - first);
  }

  LongPipeline pipeline_;
  std::uint32_t rounds_;
  std::vector<std::uint32_t> group_;  // [lane]
  std::vector<bool> counts_;          // [lane]
  std::vector<std::uint32_t> party_;  // [lane]
  std::vector<Party> parties_;
  std::vector<double> sum_s_;  // [party * rounds + round]
  std::vector<double> end_s_;  // [group]
};

}  // namespace r2ccl::sim
