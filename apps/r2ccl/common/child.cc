#include "apps/r2ccl/common/child.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <system_error>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>

#include "apps/r2ccl/common/command.h"

namespace r2ccl::apps {
namespace {

int poll_ms(Instant deadline) {
  const Duration left = deadline - steady_now();
  if (left <= Duration::zero()) return 0;
  constexpr Duration kLongest = 60s;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(std::min(left, kLongest)).count());
}

[[noreturn]] void run_child(const Children::Body& body, int fd, pid_t parent) {
  int status = kExitFailed;
  // The parent may have died between fork and here: then nobody would ever signal.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent) {
    LineChannel channel(fd);
    try {
      status = body(channel);
    } catch (const std::exception& error) {
      const std::string text = fmt::format("r2ccl (process {}): {}\n", getpid(), error.what());
      [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    }
  }
  _exit(status);
}

}  // namespace

// ---- lines ------------------------------------------------------------------------------------------------------

LineChannel::~LineChannel() {
  ::close(fd_);
}

bool LineChannel::send(std::string_view line) {
  std::string text = fmt::format("{}\n", line);
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t count = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::optional<std::string> LineChannel::receive(Instant deadline) {
  for (;;) {
    if (std::optional<std::string> line = take_line()) return line;
    if (closed_) return std::nullopt;
    pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&entry, 1, poll_ms(deadline));
    if (ready > 0) {
      read_some();
    } else if (steady_now() >= deadline) {
      return std::nullopt;
    }
  }
}

std::optional<std::string> LineChannel::take_line() {
  const std::size_t end = buffer_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

void LineChannel::read_some() {
  char bytes[64 * 1024];
  const ssize_t count = ::recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
  if (count > 0) buffer_.append(bytes, static_cast<std::size_t>(count));
  const bool over = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
  if (over || buffer_.size() > kLineBytesMax) closed_ = true;
}

// ---- children ---------------------------------------------------------------------------------------------------

Children::~Children() {
  join(steady_now());
}

Status Children::start(const Body& body) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail(Fault::kBusy, fmt::format("no socket pair: {}", std::generic_category().message(errno)));
  const pid_t parent = getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    return fail(Fault::kBusy, fmt::format("no new process: {}", std::generic_category().message(error)));
  }
  if (pid == 0) {
    ::close(ends[0]);
    // The channels of earlier children are the parent's: held open here, their end would not be seen.
    for (Child& child : children_) ::close(child.channel->fd());
    run_child(body, ends[1], parent);
  }
  ::close(ends[1]);
  children_.push_back({pid, std::make_unique<LineChannel>(ends[0])});
  return {};
}

void Children::wait(Instant deadline) {
  std::vector<pollfd> entries;
  for (const Child& child : children_) {
    if (!child.channel->closed()) entries.push_back({.fd = child.channel->fd(), .events = POLLIN, .revents = 0});
  }
  ::poll(entries.data(), entries.size(), poll_ms(deadline));
}

bool Children::collect(Child& child, bool& ok) {
  int status = 0;
  if (::waitpid(child.pid, &status, WNOHANG) != child.pid) return false;
  child.collected = true;
  ok = ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return true;
}

bool Children::join(Instant deadline) {
  bool ok = true;
  for (Child& child : children_) {
    while (!child.collected && !collect(child, ok)) {
      if (steady_now() >= deadline) ::kill(child.pid, SIGKILL);
      ::poll(nullptr, 0, 2);
    }
  }
  return ok;
}

}  // namespace r2ccl::apps
