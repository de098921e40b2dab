#include "tests/loopback/support/side_by_side.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "tests/loopback/support/shared.h"

namespace r2ccl::loopback {

namespace {

struct Outcome {
  std::array<char, 512> sentence;
};

struct Running {
  const Scenario* scenario;
  std::unique_ptr<Shared<Outcome>> outcome;
  pid_t process = -1;
};

[[noreturn]] void run_one(const Scenario& scenario, Outcome& outcome) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = 0;
  try {
    scenario.run();
  } catch (const std::exception& error) {
    std::strncpy(outcome.sentence.data(), error.what(), outcome.sentence.size() - 1);
    status = 1;
  }
  std::fflush(nullptr);
  ::_exit(status);
}

// False: the process did not end by itself and was killed.
bool wait_for_end(pid_t process, Instant deadline, int& status) {
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  pollfd watched{.fd = handle, .events = POLLIN, .revents = 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock_now());
  const bool ended = left.count() > 0 && ::poll(&watched, 1, static_cast<int>(left.count())) > 0;
  ::close(handle);
  if (!ended) ::kill(process, SIGKILL);
  ::waitpid(process, &status, 0);
  return ended;
}

}  // namespace

std::vector<std::string> run_side_by_side(const std::vector<Scenario>& scenarios, Duration within) {
  const Instant deadline = clock_now() + within;
  std::vector<Running> running;
  std::fflush(nullptr);
  for (const Scenario& scenario : scenarios) {
    Running one{&scenario, std::make_unique<Shared<Outcome>>()};
    one.process = ::fork();
    if (one.process < 0) throw std::runtime_error("no process for a scenario");
    if (one.process == 0) run_one(scenario, **one.outcome);
    running.push_back(std::move(one));
  }
  std::vector<std::string> failures;
  for (const Running& one : running) {
    int status = 0;
    if (!wait_for_end(one.process, deadline, status))
      failures.push_back(fmt::format("{}: did not end in time", one.scenario->name));
    else if (status != 0)
      failures.push_back(
          fmt::format("{}: {} (status {})", one.scenario->name, (*one.outcome)->sentence.data(), status));
  }
  return failures;
}

}  // namespace r2ccl::loopback
