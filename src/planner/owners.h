#pragma once
// Who owns what in the two-hop exchanges (weighted_direct, rotated_direct), on any fabric, and how shards of several GPUs differ.

#include <vector>

#include "base/result.h"
#include "schedule/schedule.h"
#include "topology/cluster.h"

namespace r2ccl {

struct Owners {
  std::vector<double> rho;  // share of each server; sums to 1
  RailShares shares;        // on isolated rails
  double ideal = 0;         // seconds per byte
  double kappa = 0;         // ownership.h
};
// Fails as fit_rails() does.
Result<Owners> owners_of(const Cluster& cluster);

// The shard of one GPU of every server.
struct ShardOwners {
  double size = 0;          // share of the data
  std::vector<double> rho;  // share of each server in this shard
};
// A GPU whose NIC is lost sends over its neighbours' and so loads its fabric port twice; as it need not own anything, its server owns
// nothing of that shard and more of its others. Shards whose owners are fewer are a little smaller, so that all NICs of a healthy
// server stay equally busy. One shard per GPU; sizes sum to 1, and each server owns rho of the whole, up to a small rounding.
std::vector<ShardOwners> shard_owners(const Cluster& cluster, const std::vector<double>& rho);

}  // namespace r2ccl
