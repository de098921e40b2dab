#pragma once
// Ranks of one communicator as processes, for tests that stop or kill some. They are forked before the test has
// threads.

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/time.h"
#include "tests/loopback/support/ranks.h"

namespace r2ccl::loopback {

class RankProcesses final {
 public:
  // A child calls it to send the test a line, at any time.
  using Tell = std::function<void(const std::string& line)>;
  using Body = std::function<void(Comm&, World&, const Tell& tell)>;

  RankProcesses(const RanksPlan& plan, const Body& body);
  // Ranks that make their World, or load the library, by themselves; `place`: where they can meet.
  using Program = std::function<void(std::uint32_t rank, const Address& place, const Tell& tell)>;
  RankProcesses(std::uint32_t ranks, const Program& program);
  ~RankProcesses();  // kills what still runs

  void kill(std::uint32_t rank, int signal);
  // The next line of a rank; empty: it has ended, or is late.
  std::string next_line(std::uint32_t rank, Duration within = 20s);

 private:
  struct Child {
    pid_t pid;
    int pipe;
    std::string read;
  };
  std::vector<Child> children_;
};

// The log files of a test's processes; the destructor removes them.
class LogFiles final {
 public:
  LogFiles();
  ~LogFiles();
  LogFiles(const LogFiles&) = delete;
  LogFiles& operator=(const LogFiles&) = delete;

  std::string setting() const;  // "NCCL_DEBUG_FILE=…", for all of them
  std::string text() const;     // everything written so far

 private:
  std::string folder_;
};

}  // namespace r2ccl::loopback
