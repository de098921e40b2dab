#pragma once
// Which labs there are: one file each under /run/r2ccl-lab, named like the lab. Whoever builds, runs or removes a lab
// holds the lock of its file; the kernel lets go of it when that process, and those it forked, have ended, however they
// ended.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "lab/lab_plan.h"

namespace r2ccl::lab {

inline constexpr Duration kLockMax = 10s;

class StateFile final {
 public:
  // Writes the file. kMisuse when there is a lab of that name.
  static Result<StateFile> create(const LabState& state);
  // Takes the lock of a lab that nobody holds any more; waits kLockMax at most.
  static Result<StateFile> take(const std::string& name, Duration within = kLockMax);

  // What it says; nothing when it was left before it was written, and then nothing else was made.
  Result<std::optional<LabState>> read() const;
  Status remove();

 private:
  StateFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Fd fd_;
  std::string path_;
};

std::vector<std::string> lab_names();
bool lab_exists(const std::string& name);
// Without its lock: for looking and for faults.
Result<LabState> read_state(const std::string& name);

}  // namespace r2ccl::lab
