#include "apps/r2ccl/run/run_children.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {
namespace {

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::string reason() {
  return std::generic_category().message(errno);
}

// Blocks the signals that are waited for, while it lives.
class Signals final {
 public:
  Signals() {
    sigemptyset(&mask_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&mask_, signal);
    ::pthread_sigmask(SIG_BLOCK, &mask_, &before_);
    fd_ = ::signalfd(-1, &mask_, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() {
    if (fd_ >= 0) ::close(fd_);
    restore();
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_; }
  void restore() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  // The last one that asks to end; nothing when there was none.
  std::optional<int> take() const {
    std::optional<int> ends;
    signalfd_siginfo info{};
    while (::read(fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo != SIGCHLD) ends = static_cast<int>(info.ssi_signo);
    }
    return ends;
  }

 private:
  sigset_t mask_{}, before_{};
  int fd_ = -1;
};

struct Child {
  std::uint32_t rank = 0;
  pid_t pid = 0;
  bool ended = false;
  int errors = -1;   // reading end of its stderr; -1: none, or closed
  std::string line;  // what it has not ended yet
};

class RankProcesses final {
 public:
  explicit RankProcesses(const RunLimits& limits) : limits_(limits) {}
  ~RankProcesses() {
    signal_all(SIGKILL);
    for (Child& child : children_) {
      if (!child.ended) ::waitpid(child.pid, nullptr, 0);
      if (child.errors >= 0) ::close(child.errors);
    }
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  Status start(std::uint32_t rank, const std::function<int(std::uint32_t)>& body) {
    int ends[2] = {-1, -1};
    if (rank != 0 && ::pipe2(ends, O_CLOEXEC) != 0) return fail(Fault::kBusy, fmt::format("no pipe: {}", reason()));
    const pid_t parent = getpid();
    const pid_t pid = ::fork();
    if (pid == 0) run(rank, body, ends[1], parent);
    if (ends[1] >= 0) ::close(ends[1]);
    if (pid < 0) {
      const std::string why = reason();
      if (ends[0] >= 0) ::close(ends[0]);
      return fail(Fault::kBusy, fmt::format("no new process: {}", why));
    }
    children_.push_back({rank, pid, false, ends[0], {}});
    return {};
  }

  int wait() {
    while (std::ranges::any_of(children_, [](const Child& child) { return !child.ended; })) {
      sleep();
      if (const auto asked = signals_.take()) end(128 + *asked);
      for (Child& child : children_) pass_errors(child);
      for (Child& child : children_) collect(child);
      const Instant now = steady_now();
      if (now >= term_at_) {
        signal_all(SIGTERM);
        term_at_ = kNever;
        kill_at_ = now + limits_.term_max;
      }
      if (now >= kill_at_) signal_all(SIGKILL);
    }
    for (Child& child : children_) pass_errors(child);
    return status_.value_or(kExitOk);
  }

 private:
  [[noreturn]] void run(std::uint32_t rank, const std::function<int(std::uint32_t)>& body, int errors, pid_t parent) {
    // The parent may have died between fork and here: then nobody would ever signal.
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(kExitFailed);
    if (errors >= 0) ::dup2(errors, STDERR_FILENO);
    signals_.restore();
    int status = kExitFailed;
    try {
      status = body(rank);
    } catch (const std::exception& error) {
      write_all(STDERR_FILENO, fmt::format("r2ccl: {}\n", error.what()));
    }
    _exit(status);
  }

  void sleep() {
    std::vector<pollfd> entries{{.fd = signals_.fd(), .events = POLLIN, .revents = 0}};
    for (const Child& child : children_) {
      if (child.errors >= 0) entries.push_back({.fd = child.errors, .events = POLLIN, .revents = 0});
    }
    int timeout_ms = -1;
    if (const Instant next = std::min(term_at_, kill_at_); next != kNever)
      timeout_ms = std::max(0, static_cast<int>(to_ms(next - steady_now())) + 1);
    ::poll(entries.data(), entries.size(), timeout_ms);
  }

  // Whole lines, so that those of several ranks do not mix.
  void pass_errors(Child& child) {
    pollfd entry{.fd = child.errors, .events = POLLIN, .revents = 0};
    while (child.errors >= 0 && ::poll(&entry, 1, 0) > 0) {
      char bytes[16 * 1024];
      const ssize_t count = ::read(child.errors, bytes, sizeof bytes);
      if (count < 0 && errno == EINTR) continue;
      if (count > 0) child.line.append(bytes, static_cast<std::size_t>(count));
      std::size_t end = 0;
      while ((end = child.line.find('\n')) != std::string::npos) {
        write_all(STDERR_FILENO, fmt::format("[{}] {}\n", child.rank, std::string_view(child.line).substr(0, end)));
        child.line.erase(0, end + 1);
      }
      if (count > 0) continue;
      if (!child.line.empty()) write_all(STDERR_FILENO, fmt::format("[{}] {}\n", child.rank, child.line));
      ::close(child.errors);
      child.errors = entry.fd = -1;
    }
  }

  void collect(Child& child) {
    int raw = 0;
    if (child.ended || ::waitpid(child.pid, &raw, WNOHANG) != child.pid) return;
    child.ended = true;
    const int status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
    if (status == kExitOk || status_) return;
    status_ = status;
    term_at_ = steady_now() + limits_.grace;
  }

  void end(int status) {
    if (!status_) status_ = status;
    if (kill_at_ == kNever) term_at_ = steady_now();
  }

  void signal_all(int signal) {
    for (const Child& child : children_) {
      if (!child.ended) ::kill(child.pid, signal);
    }
  }

  const RunLimits limits_;
  const Signals signals_;
  std::vector<Child> children_;
  std::optional<int> status_;  // of the first that failed
  Instant term_at_ = kNever;
  Instant kill_at_ = kNever;
};

}  // namespace

Result<int> run_children(std::uint32_t size, const std::function<int(std::uint32_t)>& body, const RunLimits& limits) {
  RankProcesses children(limits);
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    if (const Status started = children.start(rank, body); !started) return std::unexpected(started.error());
  }
  return children.wait();
}

}  // namespace r2ccl::apps
