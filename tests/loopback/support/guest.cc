#include "tests/loopback/support/guest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>

#include "tests/loopback/support/shared.h"

namespace r2ccl::loopback {

Guest Guest::knock(const Address& at) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) throw std::runtime_error(describe("a guest's socket", errno));
  const SocketAddress remote = to_socket_address(at, "");
  if (::connect(fd.get(), remote.get(), remote.length) != 0 && errno != EINPROGRESS) fd.reset();
  return Guest(std::move(fd));
}

Guest Guest::enter(const Address& at) {
  Guest guest = knock(at);
  guest.in_ = guest.fd_ && guest.ready(POLLOUT, clock_now() + kPatience) && pending_error(guest.fd_.get()) == 0;
  return guest;
}

bool Guest::ready(short what, Instant deadline) const {
  pollfd watched{.fd = fd_.get(), .events = what, .revents = 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock_now());
    if (left.count() <= 0) return false;
    const int count = ::poll(&watched, 1, static_cast<int>(left.count()));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) return false;
  }
}

bool Guest::say(ByteView bytes) {
  const Instant deadline = clock_now() + kPatience;
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (errno != EAGAIN || !ready(POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

void Guest::say_if_in(ByteView bytes) {
  if (fd_) [[maybe_unused]]
    const ssize_t said = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

Bytes Guest::hear(std::size_t bytes) {
  Bytes heard(bytes);
  std::size_t have = 0;
  const Instant deadline = clock_now() + kPatience;
  while (have < bytes) {
    const ssize_t count = ::recv(fd_.get(), heard.data() + have, bytes - have, 0);
    if (count > 0) {
      have += static_cast<std::size_t>(count);
    } else if (count == 0 || errno != EAGAIN || !ready(POLLIN, deadline)) {
      break;
    }
  }
  heard.resize(have);
  return heard;
}

bool Guest::hear_end(Duration patience) {
  const Instant deadline = clock_now() + patience;
  std::array<std::byte, 4096> dropped;
  for (;;) {
    const ssize_t count = ::recv(fd_.get(), dropped.data(), dropped.size(), 0);
    if (count == 0 || (count < 0 && errno != EAGAIN)) return true;
    if (count < 0 && !ready(POLLIN, deadline)) return false;
  }
}

void Guest::leave(bool abruptly) {
  if (abruptly) return close_with_reset(std::move(fd_));
  fd_.reset();
}

namespace {

std::size_t count_entries(pid_t process, const char* what) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/{}", process, what)))
    ++count;
  return count;
}

}  // namespace

std::size_t count_descriptors(pid_t process) {
  return count_entries(process, "fd");
}
std::size_t count_threads(pid_t process) {
  return count_entries(process, "task");
}

}  // namespace r2ccl::loopback
