#pragma once
// Runs `r2ccl lab` as a user does, and finds what it leaves behind.

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/r2ccl/common/json.h"
#include "tests/shell.h"

namespace r2ccl::lab_tests {

// `r2ccl`, which is built beside the tests.
const std::string& tool_path();

// Runs `r2ccl ARGUMENTS` in a shell; stderr is part of `out` when the arguments say so (2>&1).
Ran tool(const std::string& arguments);

// Traces of this lab on the machine: namespaces, mounts, its state file; and all of the machine's own interfaces, since
// a lab could have left one under any name.
std::vector<std::string> traces(const std::string& lab);

// A name for a lab that no other test has.
std::string fresh_name();

// Makes a lab. The destructor removes it and checks that nothing is left.
class Lab final {
 public:
  explicit Lab(const std::string& options);
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  const std::string& name() const { return name_; }
  // `r2ccl lab COMMAND --name NAME REST`; expects that it succeeds.
  void command(const std::string& word, const std::string& rest = "") const;
  apps::Json nic(int server, int nic) const;  // as `lab status --json` shows it

 private:
  const std::string name_;
  const std::vector<std::string> before_;
};

// A `r2ccl lab run` that goes on until it is ended. Its ranks run when the constructor returns.
class LongRun final {
 public:
  explicit LongRun(const std::string& name);
  ~LongRun();
  LongRun(const LongRun&) = delete;
  LongRun& operator=(const LongRun&) = delete;

  bool ranks_run() const { return ranks_run_; }
  void signal(int number) const;      // to `r2ccl lab run` alone
  void signal_all(int number) const;  // to everything it has started, too
  // The exit status, or 128 + signal.
  int wait();

 private:
  pid_t pid_ = 0;
  bool ranks_run_ = false;
};

}  // namespace r2ccl::lab_tests
