#pragma once
// Sees everything both ends report and everything the application gets, and says which promise of docs/protocol.md was
// broken.
//
//   each chunk placed once             kChunkPlaced
//   nothing lands behind a fence       kChunkPlaced after that end's kFenceSent of the same path and epoch
//   replays are right                  kChunkReplayed only of chunks that went out on a path and epoch which the
//                                      receiver has fenced without having them by then, and with no copy on a path that
//                                      lives
//   the newest copy lands              kCopyOvertaken only of copies that have a later one
//   receipts do not lie                a send of a message that was not copied completes only when its bytes are there
//                                      (workload.h)
//   messages                           delivered once, in order of receives, with right length, tag and bytes
//   paths                              none down in a calm run, none silent when nothing was

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/net/scenario.h"
#include "telemetry/telemetry.h"

namespace r2ccl::sim {

class Referee final {
 public:
  explicit Referee(const Scenario& scenario)
      : scenario_(scenario), ends_(scenario.processes * scenario.processes), leaving_(scenario.processes) {}

  void violation(std::string sentence);
  const std::vector<std::string>& violations() const { return violations_; }

  void on_event(std::size_t process, std::size_t peer, const Event& event);
  void on_leave(std::size_t process) { leaving_[process] = true; }  // its paths may go down from now on

  std::size_t fences() const { return fences_; }
  bool peer_down(std::size_t process, std::size_t peer) const;
  // A path of that session that begins at this NIC of the process has been up. `low`: the process has the lower id.
  bool was_up(std::size_t process, std::size_t peer, NicId nic, bool low) const;

 private:
  struct PathEpoch {
    PathId path;
    Epoch epoch;
    friend auto operator<=>(PathEpoch, PathEpoch) = default;
  };
  struct SentCopy {
    PathEpoch way;
    bool failed = false;  // it came and did not land
  };
  struct Chunk {
    std::vector<SentCopy> copies;    // at the sender, by number
    std::uint64_t placed_clock = 0;  // at the receiver; 0: not yet
  };
  // What one process says about its session with another.
  struct End {
    std::unordered_map<std::uint64_t, Chunk> out;  // chunks it sends
    std::map<PathEpoch, std::uint64_t> fenced;     // its own fences, when
    std::set<PathEpoch> opened;
    std::set<std::pair<std::uint64_t, std::uint64_t>> delivered;  // (stream, sequence)
    bool peer_down = false;
  };

  End& end(std::size_t process, std::size_t peer) { return ends_[process * scenario_.processes + peer]; }
  static const std::uint64_t* fence_clock(const End& end, const PathEpoch& copy);
  void on_copy(const std::string& who, End& here, End& there, const Event& event);
  void on_placed(const std::string& who, End& here, End& there, const Event& event);
  void on_copy_failed(const std::string& who, End& there, const Event& event);
  void check_replay(const std::string& who, const Chunk& chunk, End& there, const Event& event);

  const Scenario& scenario_;
  std::vector<End> ends_;
  std::vector<std::string> violations_;
  std::uint64_t clock_ = 0;  // counts events, so that "before" means something within one instant
  std::size_t fences_ = 0;
  std::vector<bool> leaving_;
};

}  // namespace r2ccl::sim
