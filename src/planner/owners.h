#pragma once
// Who owns what in the two-hop exchanges (weighted_direct, rotated_direct), on any fabric, and how shards of several
// GPUs differ.

#include <vector>

#include "base/result.h"
#include "schedule/schedule.h"
#include "topology/cluster.h"

namespace r2ccl {

struct Owners {
  std::vector<double> rho;  // share of each server; sums to 1
  RailShares shares;        // on isolated rails
  double ideal = 0;         // seconds per byte of data that the exchange takes at best
  double kappa = 0;         // how unevenly its halves load the servers (ownership.h)
};
// Fails as fit_rails() does.
Result<Owners> owners_of(const Cluster& cluster);

// What each server owns of each GPU's shard, [gpu * servers + server], as parts of the whole data: a server owns rho of
// it in all. A GPU whose NIC is lost sends over its neighbours' and so loads its fabric port twice; as it need not own
// anything, its server owns nothing of that shard and more of its others, and such shards are smaller.
std::vector<double> shard_owners(const Cluster& cluster, const std::vector<double>& rho);

}  // namespace r2ccl
