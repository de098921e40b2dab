#pragma once
// What ranks of `r2ccl perf`, `r2ccl soak` and `r2ccl demo` do alike: meet the others, tell them things, run a call
// whose every element can be checked.
//
// Threads  One.
// Failure  An error is the communicator's, which is then of no more use: whoever gets one ends its work.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/r2ccl/perf/perf_data.h"
#include "base/result.h"
#include "base/time.h"
#include "control/unique_id.h"
#include "env/settings.h"
#include "process/launched_by.h"
#include "process/world.h"
#include "topology/discover/meeting_place.h"

namespace r2ccl::apps {

// Which rank of a job this process is, and how it learns the job's id once it has a world.
struct JobSeat {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::optional<MeetingPlace> place;  // where the ranks are told to meet, if they are
  std::function<Result<UniqueId>(World& world)> learn_id;
};
Result<JobSeat> seat_of(const Launched& launch);  // as a launcher said

// One rank's end of a job: the communicator of all ranks, which have met, and the world that it lives in.
struct RankJob {
  std::unique_ptr<World> world;
  std::shared_ptr<Comm> comm;
};
Result<RankJob> join_job(const JobSeat& seat, const Settings& settings, const CommConfig& config);

// What ranks tell each other beside the work, over the communicator that does it. Every rank calls the same.
class Side final {
 public:
  explicit Side(Comm& comm) : comm_(comm) {}

  Status barrier();
  Result<std::uint64_t> sum(std::uint64_t value);
  Result<std::uint64_t> max(std::uint64_t value);
  Result<std::vector<double>> mean(std::vector<double> values);
  Result<std::vector<std::string>> gather(const std::string& text);  // by rank, padded with blanks to one length

 private:
  Status reduce(void* data, std::uint64_t count, DataType type, ReduceName name);
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
  Result<Duration> run(const PerfCase& one, const std::function<void()>& on_begin = [] {});
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
