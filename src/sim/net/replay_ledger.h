#pragma once
// Works out from what both ends report, and from nothing else, which chunks docs/protocol.md says must be replayed:
// those sent on a fenced path that the receiver does not have and that no live path carries.

#include <map>
#include <set>
#include <vector>

#include "sim/net/scenario.h"

namespace r2ccl::sim {

class ReplayLedger final {
 public:
  void see(const Sighting& sighting);

  std::uint64_t must_replay_bytes() const { return must_bytes_; }
  std::uint64_t replayed_bytes() const { return replayed_bytes_; }

 private:
  struct Copy {
    PathId path;
    Epoch epoch;
    bool fenced = false;
  };
  struct Chunk {
    std::uint64_t bytes = 0;
    std::vector<Copy> copies;
  };
  using Have = std::set<std::uint64_t>;
  // Everything about chunks from one process to another.
  struct Flow {
    std::map<std::uint64_t, Chunk> chunks;
    Have placed;
    std::map<PathId, std::map<Epoch, Have>> fences;  // of the receiver: what it had
  };

  void on_agreed(Flow& flow, PathId path, Epoch epoch);

  std::map<std::pair<std::size_t, std::size_t>, Flow> flows_;
  std::uint64_t must_bytes_ = 0;
  std::uint64_t replayed_bytes_ = 0;
};

}  // namespace r2ccl::sim
