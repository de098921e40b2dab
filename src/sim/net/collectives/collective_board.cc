#include "sim/net/collectives/collective_board.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace r2ccl::sim {

CollectiveBoard::CollectiveBoard(const Scenario& scenario, Network& network, Referee& referee)
    : scenario_(scenario),
      network_(network),
      referee_(referee),
      ids_(scenario.collectives ? scenario.collectives->communicators.size() : 0),
      regroups_(ids_.size()) {}

std::uint64_t CollectiveBoard::name_of(std::size_t communicator, std::size_t batch, std::size_t call) const {
  return mix64(mix64(scenario_.seed) + (communicator << 48 | batch << 16 | call));
}

CollectiveBoard::Known& CollectiveBoard::known(const Key& key) {
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  const auto [communicator, batch, call] = key;
  const PlannedCommunicator& plan = scenario_.collectives->communicators[communicator];
  CallTruth truth(name_of(communicator, batch, call), batch_of(plan, batch).calls[call], plan.size());
  return known_.emplace(key, Known{std::move(truth), plan.size()}).first->second;
}

const Bytes& CollectiveBoard::input(std::size_t communicator, std::size_t batch, std::size_t call, std::uint32_t rank) {
  return known({communicator, batch, call}).truth.input(rank);
}

Bytes CollectiveBoard::take_output(std::size_t communicator, std::size_t batch, std::size_t call, std::uint32_t rank) {
  Known& one = known({communicator, batch, call});
  Bytes output = one.truth.output(rank);
  if (--one.open == 0) known_.erase({communicator, batch, call});
  return output;
}

Bytes CollectiveBoard::transfer(std::size_t communicator, std::size_t batch, std::size_t transfer) const {
  const PlannedCommunicator& plan = scenario_.collectives->communicators[communicator];
  Bytes bytes(batch_of(plan, batch).transfers[transfer].bytes);
  SimRandom(name_of(communicator, batch, 0x8000 + transfer)).fill(bytes);
  return bytes;
}

bool CollectiveBoard::all_failed(std::size_t communicator, const std::vector<std::uint32_t>& ranks) const {
  return std::ranges::all_of(ranks, [&](std::uint32_t rank) { return regroups_[communicator].failed.contains(rank); });
}

bool CollectiveBoard::on_invited(std::size_t communicator, const UniqueId& id) {
  Regroup& regroup = regroups_[communicator];
  ++regroup.invited;
  if (!regroup.id) regroup.id = id;
  return regroup.id->secret == id.secret && regroup.id->root == id.root;
}

std::size_t CollectiveBoard::regroups() const {
  return static_cast<std::size_t>(std::ranges::count_if(regroups_, [](const Regroup& one) { return one.invited > 1; }));
}

void CollectiveBoard::on_begun(std::size_t communicator, std::uint32_t rank, const PlanInUse& plan,
                               const HealthMap& map) {
  const auto [found, first] = used_.try_emplace({communicator, plan.operation}, plan.algorithm, map, rank);
  const Used& used = found->second;
  const std::string what = fmt::format("collective {} of communicator {}", plan.operation, communicator);
  if (map.version != plan.health_version) {
    referee_.violation(
        fmt::format("{}: rank {} shows map {} and plans with {}", what, rank, map.version, plan.health_version));
  }
  if (!first && (used.map != map || used.algorithm != plan.algorithm)) {
    referee_.violation(fmt::format("{}: rank {} uses map {} and {}, rank {} uses map {} and {}", what, rank,
                                   map.version, plan.algorithm, used.rank, used.map.version, used.algorithm));
  }
  if (found == used_.begin()) return;
  const auto& [key, before] = *std::prev(found);
  if (key.first == communicator && before.map.version > map.version) {
    referee_.violation(
        fmt::format("{}: rank {} uses map {} after map {}", what, rank, map.version, before.map.version));
  }
}

bool CollectiveBoard::has_run(std::size_t communicator) const {
  const auto first = used_.lower_bound({communicator, 0});
  return first != used_.end() && first->first.first == communicator;
}

std::size_t CollectiveBoard::maps() const {
  std::set<std::pair<std::size_t, std::uint64_t>> seen;
  for (const auto& [key, used] : used_) {
    if (used.map.version > 0) seen.emplace(key.first, used.map.version);
  }
  return seen.size();
}

// One of these ranks had a path up there to rank 0, or rank 0 to another server: those sessions every communicator
// uses.
bool CollectiveBoard::was_in_use(std::size_t communicator, std::size_t first_rank, std::size_t ranks, NicId nic,
                                 const std::vector<ProcessId>& ids) const {
  const std::vector<std::uint8_t>& process = scenario_.collectives->communicators[communicator].process;
  for (std::size_t rank = first_rank; rank < first_rank + ranks; ++rank) {
    const std::size_t here = process[rank];
    for (std::size_t other = 0; other < (rank == 0 ? process.size() : 1); ++other) {
      const std::size_t there = process[other];
      if (scenario_.server_of(here) != scenario_.server_of(there) &&
          referee_.was_up(here, there, nic, ids[here] < ids[there]))
        return true;
    }
  }
  return false;
}

// Whether a NIC of the rail is gone for good: what the others of the rail then look like depends on who talks to whom.
bool CollectiveBoard::rail_hurt(std::uint8_t nic) {
  for (std::size_t server = 0; server < scenario_.servers(); ++server) {
    if (network_.nic({static_cast<std::uint8_t>(server), nic}).dead) return true;
  }
  return false;
}

std::string CollectiveBoard::wrong_about(std::size_t communicator, const HealthMap& map,
                                         const std::vector<ProcessId>& ids) {
  const PlannedCommunicator& plan = scenario_.collectives->communicators[communicator];
  std::vector<ProcessInfo> members;
  for (const std::uint8_t process : plan.process) {
    members.push_back({.process = ids[process],
                       .server = {std::uint64_t{scenario_.server_of(process)} + 1},
                       .rank = 0,
                       .host = {},
                       .ports = {}});
  }
  const std::uint32_t gpus = place(members, 1).gpus;
  for (std::size_t i = 0; i < map.nic.size(); ++i) {
    const std::size_t first_rank = i / scenario_.data_nics * gpus;
    const NicRef nic{scenario_.server_of(plan.process[first_rank]), static_cast<std::uint8_t>(i % scenario_.data_nics)};
    const std::string what = fmt::format("server {} NIC {} counts {}/1000", nic.server, nic.nic, map.nic[i]);
    if (!rail_hurt(nic.nic) && map.nic[i] != kWhole) return what + " and is well";
    if (network_.nic(nic).dead && map.nic[i] != 0 && was_in_use(communicator, first_rank, gpus, {nic.nic}, ids))
      return what + " and is gone";
  }
  return {};
}

}  // namespace r2ccl::sim
