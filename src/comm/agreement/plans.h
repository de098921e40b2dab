#pragma once
// Which plan a call gets: a pure function of call, cluster and mode, with a memory for equal calls.

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "comm/call.h"
#include "comm/operation.h"
#include "topology/cluster.h"

namespace r2ccl {

// R2CCL_MODE. kOff and kRepair never re-plan: the ring of the healthy cluster goes on.
//   off      ring; no plan for failures (sessions still repair: bytes are never given up, and go over all NICs that are left)
//   repair   the papers' hot repair: one ring a NIC; that of a lost one goes over the next that is alive, which then has two shares
//   balance  ring by surviving bandwidth
//   r2, optcc, direct, trees   that algorithm for all_reduce where it applies, else as auto
//   auto     the cheapest by the cost model
enum class Mode : std::uint8_t { kOff, kRepair, kBalance, kR2, kOptcc, kDirect, kTrees, kAuto };
Result<Mode> mode_of(const std::string& text);
bool replans(Mode mode);

class Plans final {
 public:
  static constexpr std::size_t kKept = 64;

  Plans(Mode mode, std::string algorithm, std::uint32_t rank)
      : mode_(mode), algorithm_(std::move(algorithm)), rank_(rank) {}

  // Planned for where nothing can be planned on what is left: servers without a rail in common can only wait for a NIC to come back.
  void set_healthy(const Cluster& cluster) { healthy_ = cluster; }
  // Forgets what it knows.
  void use(const Cluster& cluster, std::uint64_t version);
  std::uint64_t version() const { return version_; }  // of the cluster in use; UINT64_MAX: none yet
  Result<std::shared_ptr<const RankPlan>> plan_for(const Call& call);

 private:
  using Key = std::tuple<CallKind, std::uint64_t, std::uint32_t>;  // kind, bytes, root
  Result<Plan> make(const Request& request, const Cluster& cluster) const;

  const Mode mode_;
  const std::string algorithm_;
  const std::uint32_t rank_;
  Cluster cluster_;
  Cluster healthy_;
  std::uint64_t version_ = UINT64_MAX;
  std::vector<std::pair<Key, std::shared_ptr<const RankPlan>>> kept_;  // oldest first
};

}  // namespace r2ccl
