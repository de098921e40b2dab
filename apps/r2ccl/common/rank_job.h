#pragma once
// What a rank of `r2ccl perf` and one of `r2ccl soak` do alike: meet the others, tell them things, run a call whose
// every element can be checked.
//
// Threads  One.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/r2ccl/perf/perf_data.h"
#include "process/launched_by.h"
#include "process/world.h"

namespace r2ccl::apps {

// The communicator failed; its sentence.
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};
void must(const Status& status);

// The communicator of a whole job; the world is its.
struct RankJob {
  std::unique_ptr<World> world;
  std::shared_ptr<Comm> comm;
};
Result<RankJob> join_job(const Launched& launch, const Settings& settings, const CommConfig& config);

// What ranks tell each other beside the work, over the communicator that does it. Every rank calls the same.
class Side final {
 public:
  explicit Side(Comm& comm) : comm_(comm) {}

  void barrier();
  std::uint64_t sum(std::uint64_t value);
  std::uint64_t max(std::uint64_t value);
  std::vector<double> mean(std::vector<double> values);
  std::vector<std::string> gather(const std::string& text);  // by rank, padded with blanks to one length

 private:
  void reduce(void* data, std::uint64_t count, DataType type, ReduceName name);
  Comm& comm_;
};

// Runs calls over memory of its own.
class CheckedCalls final {
 public:
  explicit CheckedCalls(Comm& comm) : comm_(comm), side_(comm) {}

  void prepare(const PerfCase& one);  // memory for it
  // Draws the data of a new operation and fills the input; the output is poisoned.
  void fill(const PerfCase& one, PerfData& data);
  // Between everybody being ready, when `on_begin` is called, and this rank being done.
  Duration run(const PerfCase& one, const std::function<void()>& on_begin = [] {});
  // Elements of the output that are not what they must be.
  std::uint64_t wrong(const PerfCase& one, const PerfData& data) const;

 private:
  Comm& comm_;
  Side side_;
  std::vector<std::byte> first_, second_;
  std::span<std::byte> input_, output_;
  std::uint64_t operation_ = 0;
};

}  // namespace r2ccl::apps
