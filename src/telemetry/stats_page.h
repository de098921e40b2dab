#pragma once
// Shows others how a process is getting on: a file of shared memory that they may read while it runs. `r2ccl status`
// reads it, and so do faults of the lab that wait for an operation.
//
//   bytes    0  magic            16  progress: operation * 2^20 + millionths of its bytes
//            8  sequence         24  Stats, in words; torn while the sequence is odd or has changed
//
// Ownership  The writer makes the file and removes it. The file of a process that was killed is removed by the next
//            writer or reader.
// Threads    One writer at a time, any number of readers, no waiting on either side.
// Failure    A process that can not have a page goes on without.

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "telemetry/telemetry.h"

namespace r2ccl {

// Plain memory: the layout that both sides share.
struct Stats {
  static constexpr std::size_t kNicsMax = 16;
  struct Nic {
    char name[24] = {};
    char state[16] = {};
    double rate_bytes_s = 0;  // its fastest path's
  };
  std::uint64_t process = 0;  // the system's process id
  std::uint64_t server = 0;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint64_t health_version = 0;
  char algorithm[32] = {};  // the last collective's
  Counters counters{};
  std::uint64_t nic_count = 0;
  Nic nics[kNicsMax] = {};
};

// How far a process has come: its latest collective, and how many millionths of that one's bytes have moved.
struct Reached {
  std::uint64_t operation = 0;
  std::uint32_t share_ppm = 0;
  friend auto operator<=>(const Reached&, const Reached&) = default;
};

class StatsPage final {
 public:
  // Makes `directory` if there is none. `name` is the file's and begins with this process's id.
  static Result<StatsPage> create(const std::string& directory, const std::string& name);
  ~StatsPage();
  StatsPage(StatsPage&& other) noexcept
      : path_(std::move(other.path_)), memory_(std::exchange(other.memory_, nullptr)) {}
  StatsPage& operator=(StatsPage&&) = delete;

  void set_reached(const Reached& reached);
  void publish(const Stats& stats);

 private:
  struct Memory;
  friend struct StatsReader;
  StatsPage(std::string path, Memory* memory) : path_(std::move(path)), memory_(memory) {}
  std::string path_;
  Memory* memory_;
};

struct StatsView {
  Stats stats;
  Reached reached;
};
// The pages of all living processes in the directory and beneath it, by server and rank. Files that are no pages are
// left alone.
std::vector<StatsView> read_stats(const std::string& directory);

}  // namespace r2ccl
