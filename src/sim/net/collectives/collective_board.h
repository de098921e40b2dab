#pragma once
// What the ranks of a run are checked against: the right answers of every planned call, and the health map and plan
// that each rank used for each collective.
//
//   one map per collective   every rank that begins collective n of a communicator uses the same version and the same
//                            plan
//   maps never go back       each map of a communicator has a higher version than the one before
//   the map is right         asked for when every fault has healed (CollectivePlan::until_healed)

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/net/collectives/collective_truth.h"
#include "sim/net/referee.h"

namespace r2ccl::sim {

class CollectiveBoard final {
 public:
  CollectiveBoard(const Scenario& scenario, Network& network, Referee& referee);

  // Made by the process of rank 0; how it gets to the others is not part of the run.
  std::optional<UniqueId>& id(std::size_t communicator) { return ids_[communicator]; }

  std::uint64_t name_of(std::size_t communicator, std::size_t batch, std::size_t call) const;
  // Kept until every rank has asked for its output.
  const Bytes& input(std::size_t communicator, std::size_t batch, std::size_t call, std::uint32_t rank);
  Bytes take_output(std::size_t communicator, std::size_t batch, std::size_t call, std::uint32_t rank);
  Bytes transfer(std::size_t communicator, std::size_t batch, std::size_t transfer) const;

  void on_begun(std::size_t communicator, std::uint32_t rank, const PlanInUse& plan, const HealthMap& map);
  // What the map gets wrong about the NICs as they are; empty when nothing. `ids`: the processes, by index.
  std::string wrong_about(std::size_t communicator, const HealthMap& map, const std::vector<ProcessId>& ids);
  // Who meets again after a failure, and where.
  void on_failed(std::size_t communicator, std::uint32_t rank) { regroups_[communicator].failed.insert(rank); }
  bool all_failed(std::size_t communicator, const std::vector<std::uint32_t>& ranks) const;
  bool on_invited(std::size_t communicator, const UniqueId& id);  // false: the others heard of another one
  std::size_t invited(std::size_t communicator) const { return regroups_[communicator].invited; }
  std::size_t regroups() const;  // of more than one rank

  void count_collective() { ++collectives_; }
  std::size_t collectives() const { return collectives_; }
  bool has_run(std::size_t communicator) const;  // a collective has begun in it
  std::size_t maps() const;                      // that collectives used, beyond the first of each communicator

 private:
  struct Known {
    CallTruth truth;
    std::uint32_t open;  // ranks that have not taken their output
  };
  struct Used {
    std::string algorithm;
    HealthMap map;
    std::uint32_t rank;
  };
  struct Regroup {
    std::set<std::uint32_t> failed;
    std::size_t invited = 0;
    std::optional<UniqueId> id;
  };
  using Key = std::tuple<std::size_t, std::size_t, std::size_t>;

  Known& known(const Key& key);
  bool rail_hurt(std::uint8_t nic);
  bool was_in_use(std::size_t communicator, std::size_t first_rank, std::size_t ranks, NicId nic,
                  const std::vector<ProcessId>& ids) const;

  const Scenario& scenario_;
  Network& network_;
  Referee& referee_;
  std::vector<std::optional<UniqueId>> ids_;
  std::vector<Regroup> regroups_;  // by communicator
  std::map<Key, Known> known_;
  std::map<std::pair<std::size_t, std::uint64_t>, Used> used_;  // by communicator and operation
  std::size_t collectives_ = 0;
};

}  // namespace r2ccl::sim
